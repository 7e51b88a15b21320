#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# libfabric over verbs: messages, reliable datagrams on them, and plain datagrams.
. "$(dirname "$0")/common.sh"
hosts_up

run() { # ENDPOINT PROVIDER MORE
	everywhere 47592 "fi_pingpong -e $1 -p $2 $3" "fi_pingpong -e $1 -p $2 $3 @"
}

for LINK in roce ib; do
	run msg verbs "-I 10"
	run rdm "verbs;ofi_rxm" "-I 10"
	run dgram verbs "-I 10"
done
echo "fabric: $passed runs passed"
