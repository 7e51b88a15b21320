#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A wire that is not perfect: 1 % of the packets lost; late, but in order; and, apart from
# both, 0.1 % overtaken by others. Slower, and nothing else.
. "$(dirname "$0")/common.sh"
hosts_up
LOSES=yes

ucx() { # TEST SIZE
	local server="env UCX_NET_DEVICES=mlx5_0:1 UCX_TLS=rc_x ucx_perftest -t $1 -n 50 -w 5 -s $2"
	pair 13337 $A $B "$server" "$server $A_IP"
}

programs() { # SIZE
	local op ping=$(($1 < 65536 ? $1 : 65535))	# rping takes less than 64 KiB
	pair 18515 $A $B "ibv_rc_pingpong -g 0 -s $1 -n 50 -c" \
		"ibv_rc_pingpong -g 0 -s $1 -n 50 -c $A_IP"
	for op in write read send; do
		pair 18515 $A $B "ib_${op}_bw -d mlx5_0 -F -x 0 -s $1 -n 50" \
			"ib_${op}_bw -d mlx5_0 -F -x 0 -s $1 -n 50 $A_IP"
	done
	# The client goes when it has asked to disconnect once, as with a kernel.
	MAY_MISS_THE_END=yes
	pair rdma_listen $A $B "stdbuf -oL rping -s -d -a $A_IP -C 10 -S $ping" \
		"rping -c -a $A_IP -C 10 -S $ping"
	MAY_MISS_THE_END=
	ucx tag_lat $1
	ucx ucp_put_bw $1
	pair 47592 $A $B "fi_pingpong -e msg -p verbs -I 20 -S $1" \
		"fi_pingpong -e msg -p verbs -I 20 -S $1 $A_IP"
}

# The settings stay while somebody is on a host, so each names all of them.
for fault in "loss=1% jitter=0 reorder=0" "loss=0 jitter=200us reorder=0" \
	"loss=0 jitter=0 reorder=0.1%"; do
	OPTIONS=(--fault timeouts=100%)
	for setting in $fault; do OPTIONS+=(--fault $setting); done
	echo "# $fault"
	for size in 64 4096 65536; do programs $size; done
	pair 18515 $A $B "ibv_srq_pingpong -g 0 -s 4096 -n 50 -q 4" \
		"ibv_srq_pingpong -g 0 -s 4096 -n 50 -q 4 $A_IP"
	for op in FETCH_AND_ADD CMP_AND_SWAP; do
		pair 18515 $A $B "ib_atomic_bw -d mlx5_0 -F -x 0 -A $op -n 50" \
			"ib_atomic_bw -d mlx5_0 -F -x 0 -A $op -n 50 $A_IP"
	done
done
echo "lossy: $passed runs passed"
