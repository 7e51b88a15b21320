#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of libibverbs: what the device says of itself, and ping-pong over RC, SRQ
# and UD, polling and by events, in several sizes; and a program of ours, rare.c, through what
# none of these uses, also with a sanitizer in it, where doorbells are polled.
. "$(dirname "$0")/common.sh"
hosts_up

DEVICES=2
for LINK in roce ib; do
	one $A ibv_devices
	one $A ibv_devinfo -v
done

pingpong() { # GID SIZES..: GID arguments of the link, sizes of RC and SRQ
	local mode size gid=$1
	shift
	for mode in "" -e; do
		for size in "$@"; do
			everywhere 18515 "ibv_rc_pingpong -d mlx5_0 $gid $mode -s $size -n 100 -c" \
				"ibv_rc_pingpong -d mlx5_0 $gid $mode -s $size -n 100 -c @"
			everywhere 18515 "ibv_srq_pingpong -d mlx5_0 $gid $mode -s $size -n 100 -q 4" \
				"ibv_srq_pingpong -d mlx5_0 $gid $mode -s $size -n 100 -q 4 @"
		done
		for size in 1 1000 2048; do
			everywhere 18515 "ibv_ud_pingpong -d mlx5_0 $gid $mode -s $size -n 100" \
				"ibv_ud_pingpong -d mlx5_0 $gid $mode -s $size -n 100 @"
		done
	done
}

DEVICES=1
LINK=roce
pingpong "-g 0" 1 4096 65537
LINK=ib
pingpong "" 1 4096 65537
pingpong "-g 0" 4096
OPTIONS=(--poll)
LINK=roce
pingpong "-g 0" 4096
for LINK in roce ib; do
	for mode in --trap --poll; do
		OPTIONS=($mode)
		one $A $TENT_BUILD/sim/hca/judges/rare $SIM
	done
	OPTIONS=()
	one $A $TENT_BUILD/sim/hca/judges/rare_asan $SIM
done
echo "ibverbs: $passed runs passed"
