#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# UCX builds its own WQEs and reads CQEs itself: tags, puts, gets and atomics over its
# direct-verbs (rc_mlx5), verbs (rc_verbs) and datagram (ud_mlx5) transports, and from two
# threads. rc_x, rc_v and ud_x are its names for those with what they need to connect.
. "$(dirname "$0")/common.sh"
hosts_up

run() { # TLS TEST MORE
	local server="env UCX_NET_DEVICES=mlx5_0:1 UCX_TLS=$1 ucx_perftest -t $2 -n 200 -w 10 $3"
	everywhere 13337 "$server" "$server @"
}

for LINK in roce ib; do
	for tls in rc_x rc_v ud_x; do
		for size in 8 65536; do
			run $tls tag_lat "-s $size"
			run $tls tag_bw "-s $size"
			run $tls ucp_put_lat "-s $size"
			run $tls ucp_get "-s $size"
		done
		run $tls ucp_fadd "-s 8"
		run $tls ucp_cswap "-s 8"
		run $tls tag_lat "-s 64 -T 2 -M multi"
	done
done
echo "ucx: $passed runs passed"
