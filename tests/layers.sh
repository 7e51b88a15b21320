#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The arrow of includes: uapi <- ring <- engine <- dv, gpu and io, which do not know each other,
# and lib, tools and perf on top; sim stands apart. Prints each line that breaks it and fails.
set -u
broken=0

complain() {
	[ -z "$2" ] && return
	echo "layers: $1"
	echo "$2" | sed 's/^/  /'
	broken=1
}

# Those of the folders that exist: some layers are still to come.
folders() {
	local folder
	for folder; do [ -d "$folder" ] && echo "$folder"; done
}

# includes FOLDER ALLOWED: quoted includes of FOLDER outside the allowed prefixes.
includes() {
	[ -d "$1" ] || return
	complain "$1/ may include only: $2" "$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' \
		--include='*.[ch]' "$1" | grep -vE "include[[:space:]]*\"($2)")"
}

includes uapi 'nothing by quotes'
includes ring 'ring/'
includes engine 'ring/|engine/'
table='engine/backend\.h"|engine/hot\.h"|engine/mem\.h"|engine/thread\.h"|engine/transfer_list\.h"'
includes dv "ring/|dv/|$table"
includes gpu "ring/|gpu/|$table"
includes io "ring/|io/|$table"
includes lib 'ring/|engine/|dv/|gpu/|io/|lib/'
includes tools 'ring/|engine/|io/|lib/|tools/'
includes perf 'ring/|engine/|dv/|gpu/|io/|lib/|perf/'
includes sim 'sim/'

# The software ConnectX, from the card up: its parts know each other by one header.
hca=sim/hca
includes $hca/mem "$hca/mem/"
includes $hca/engine "$hca/engine/|$hca/mem/umem\.h\""
includes $hca/doorbell "$hca/doorbell/|$hca/mem/"
includes $hca/wire "$hca/wire/|$hca/engine/packet\.h\""
includes $hca/cm "$hca/cm/|$hca/engine/packet\.h\"|$hca/mem/user\.h\""
includes $hca/uverbs "$hca/uverbs/|$hca/engine/engine\.h\"|$hca/mem/user\.h\""
includes $hca/host "$hca/host/|$hca/wire/|$hca/engine/engine\.h\"|$hca/cm/holder\.h\""
includes $hca/tool "$hca/tool/|$hca/host/"
includes $hca/front "$hca/front/|$hca/uverbs/|$hca/(cm/cm|doorbell/doorbell|engine/engine|host/(host|tree)|mem/(fault|umem)|wire/wire)\.h\""
# The stand-in for the CUDA driver; its tests show that the ConnectX takes its dma-bufs.
includes sim/cuda 'sim/cuda/|sim/hca/mem/umem\.h"'
complain "the card asks the system for memory only" "$(grep -rnE \
	'include[[:space:]]*<(sys/|linux/|unistd|pthread|time|signal|poll|fcntl|sched)' $hca/engine)"

# What a layer must not reach through <>: ring knows no legacy API, the public
# headers know only each other and the C library.
complain "uapi includes only <tent/..> and C library headers" "$(grep -rnE \
	--include='*.h' '#[[:space:]]*include[[:space:]]*<' uapi | grep -vE '<(tent/[a-z_]+\.h|std[a-z]+\.h)>')"
complain "tent.hpp stands on tent.h, notify.h and the C++ library" "$(grep -rnE \
	--include='*.hpp' '#[[:space:]]*include[[:space:]]*<' uapi |
	grep -vE '<(tent/((tent|notify)\.h|types\.hpp)|[a-z_]+)>')"
complain "ring depends on no library but libc" "$(grep -rnE \
	'include[[:space:]]*<(jansson|liburing|infiniband)' ring uapi)"
complain "only lib and its users know transfer_engine.h" "$(grep -rn 'tent/transfer_engine\.h>' \
	$(folders ring engine dv gpu io))"
complain "no header of a GPU's maker is needed to build" "$(grep -rnE 'include[[:space:]]*<cuda' \
	$(folders uapi ring engine dv gpu io lib tools perf))"
complain "product code does not know that it is simulated" "$(grep -rnE 'include.*"sim/' \
	$(folders uapi ring engine dv gpu io lib tools perf))"

# Memory orders have one home, so that the table of pairs can be complete.
complain "only ring/order.h spells a memory order" "$(grep -rnE \
	'__ATOMIC_|__atomic_|__sync_|stdatomic\.h|atomic_thread_fence|_mm_[lsm]fence|"[lsm]fence' \
	--include='*.[ch]' uapi ring engine dv gpu io lib tools perf | grep -v '^ring/order\.h:')"

# Each use names its pair, on its line or in the comment of its function.
complain "a use that names no pair of order.h or lib.h, nor says 'no pair'" "$(awk '
	{ line[FNR] = code = $0; sub(/\/\*.*/, "", code) }
	code ~ /^\t(.*[^a-z_])?((compare_)?exchange|fetch_add|load_acquire|store_release)\(/ ||
	code ~ /^\t(.*[^a-z_])?(full_fence|compiler_fence|wake_barrier)\(/ ||
	code ~ /^\t(.*[^a-z_])?(device_(store|load)_fence|register_fence)\(/ {
		for (i = FNR; i > FNR - 9 && i > 0; i--)
			if (line[i] ~ /[^A-Za-z0-9_][RAFLD][0-9]+[^A-Za-z0-9_]|no pair/) next
		print FILENAME ":" FNR ": " $0
	}' $(find ring engine dv gpu io lib -name '*.[ch]' ! -path ring/order.h))"

[ $broken = 0 ] && echo "layers: the arrows hold"
exit $broken
