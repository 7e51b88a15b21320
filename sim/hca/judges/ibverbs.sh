#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of libibverbs: what the device says of itself, and ping-pong over RC, SRQ
# and UD, polling and by events, in several sizes.
. "$(dirname "$0")/common.sh"
hosts_up

DEVICES=2
for LINK in roce ib; do
	one $A ibv_devices
	one $A ibv_devinfo -v
done

pingpong() { # GID arguments of the link
	local mode size
	for mode in "" -e; do
		for size in 1 4096 65537; do
			everywhere 18515 "ibv_rc_pingpong -d mlx5_0 $1 $mode -s $size -n 100 -c" \
				"ibv_rc_pingpong -d mlx5_0 $1 $mode -s $size -n 100 -c @"
			everywhere 18515 "ibv_srq_pingpong -d mlx5_0 $1 $mode -s $size -n 100 -q 4" \
				"ibv_srq_pingpong -d mlx5_0 $1 $mode -s $size -n 100 -q 4 @"
		done
		for size in 1 1000 2048; do
			everywhere 18515 "ibv_ud_pingpong -d mlx5_0 $1 $mode -s $size -n 100" \
				"ibv_ud_pingpong -d mlx5_0 $1 $mode -s $size -n 100 @"
		done
	done
}

DEVICES=1
LINK=roce
pingpong "-g 0"
LINK=ib
pingpong ""
pingpong "-g 0"
echo "ibverbs: $passed runs passed"
