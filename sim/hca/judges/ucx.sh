#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# UCX builds its own WQEs and reads CQEs itself: tags, puts, gets and atomics over its
# direct-verbs (rc_mlx5), verbs (rc_verbs) and datagram (ud_mlx5) transports, and from two
# threads. rc_x, rc_v and ud_x are its names for those with what they need to connect.
. "$(dirname "$0")/common.sh"
hosts_up

perftest() { # TLS TEST MORE
	echo "env UCX_NET_DEVICES=mlx5_0:1 UCX_TLS=$1 ucx_perftest -t $2 -n 100 -w 10 $3"
}

run() { # TLS TEST MORE
	everywhere 13337 "$(perftest "$@")" "$(perftest "$@") @"
}

between() { # two hosts only
	pair 13337 $A $B "$(perftest "$@")" "$(perftest "$@") $A_IP"
}

for LINK in roce ib; do
	for tls in rc_x rc_v ud_x; do
		for test in tag_lat tag_bw ucp_put_lat ucp_get; do
			run $tls $test "-s 8"
			between $tls $test "-s 65536"
		done
		run $tls ucp_fadd "-s 8"
		run $tls ucp_cswap "-s 8"
		for test in tag_lat ucp_put_lat ucp_get; do
			between $tls $test "-s 64 -T 2 -M multi"
		done
	done
done
echo "ucx: $passed runs passed"
