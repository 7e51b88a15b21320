#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Beside tcp_lat and tcp_bw: what UCX's own benchmark makes of TCP between the same two
# cores, where it is installed (package ucx-utils). It judges nothing. Its latency is half
# of a round trip; here it is a whole one, as in tcp_lat.
set -euo pipefail
export UCX_TLS=tcp UCX_NET_DEVICES=lo UCX_WARN_UNUSED_ENV_VARS=n LC_ALL=C
cpus=($(taskset -cp $$ | sed 's/.*: //' | tr ',' '\n' |
	awk -F- '{ for (i = $1; i <= ($2 == "" ? $1 : $2); i++) print i }'))
port=$((20000 + $$ % 10000))
server=
trap '[ -z "$server" ] || kill $server 2> /dev/null || true' EXIT

if ! command -v ucx_perftest > /dev/null; then
	echo "# ucx_perftest             not run: it is not installed (ucx-utils)"
	exit 0
fi

listens() { # PORT
	awk -v at="$(printf ':%04X' "$1")" '$4 == "0A" && $2 ~ at "$" { found = 1 }
		END { exit !found }' /proc/net/tcp /proc/net/tcp6
}

measure() { # TEST BYTES ITERATIONS: the last line of its results
	port=$((port + 1))
	taskset -c "${cpus[1]:-${cpus[0]}}" ucx_perftest -p $port > /dev/null 2>&1 &
	server=$!
	until listens $port; do
		kill -0 $server 2> /dev/null || { echo "ucx_perftest ended" >&2; exit 1; }
	done
	timeout 60 taskset -c "${cpus[0]}" ucx_perftest 127.0.0.1 -p $port -t "$1" -s "$2" -n "$3" -f |
		awk '$1 ~ /^[0-9]+$/ { line = $0 } END { print line }'
	wait $server
	server=
}

echo "# ucx_perftest             $(ucx_info -v 2> /dev/null | sed -n 's/^# Version //p'), UCX_TLS=tcp," \
	"CPU ${cpus[0]} and ${cpus[1]:-${cpus[0]}}"
printf '# %-12s %9s %11s %8s\n' what bytes p50_rtt_us MiB_s
row() { # TEST BYTES ITERATIONS
	measure "$@" | awk -v what="$1" -v bytes="$2" '{
		if (what ~ /_bw$/)
			printf "  %-12s %9d %11s %8.0f\n", what, bytes, "-", $6
		else
			printf "  %-12s %9d %11.2f %8s\n", what, bytes, $2 * 2, "-" }'
}
row tag_lat 64 10000
row tag_lat 4096 10000
row ucp_put_lat 64 5000
row tag_bw 1048576 500
row ucp_put_bw 1048576 500
