#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libfabric over verbs: messages, reliable datagrams on them, and plain datagrams.
. "$(dirname "$0")/common.sh"
hosts_up

# What RxM says of its connections says how it ended: common.sh.
run() { # ENDPOINT PROVIDER MORE
	local program="env FI_LOG_LEVEL=info FI_LOG_SUBSYS=ep_ctrl stdbuf -oL fi_pingpong -e $1 -p $2 $3"
	everywhere 47592 "$program" "$program @"
}

for LINK in roce ib; do
	run msg verbs "-I 10"
	run rdm "verbs;ofi_rxm" "-I 10"
	run dgram verbs "-I 10"
done
echo "fabric: $passed runs passed"
