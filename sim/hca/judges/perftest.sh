#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perftest: latency and bandwidth of every operation over all sizes, many queue pairs,
# both directions, atomics. Numbers are of the simulation: not a latency of anything.
. "$(dirname "$0")/common.sh"
hosts_up

both() { # PROGRAM ARGUMENTS
	everywhere 18515 "$1 -d mlx5_0 -F $2" "$1 -d mlx5_0 -F $2 @"
}

tests() { # arguments of the link
	local op
	for op in write read send; do
		both ib_${op}_lat "$1 -a -n 5"
		both ib_${op}_bw "$1 -a -n 5"
		both ib_${op}_bw "$1 -s 4096 -n 50 -q 16"
		both ib_${op}_bw "$1 -s 4096 -n 100 -b"
	done
	for op in FETCH_AND_ADD CMP_AND_SWAP; do
		both ib_atomic_lat "$1 -A $op -n 100"
		both ib_atomic_bw "$1 -A $op -n 100"
	done
}

LINK=roce
tests "-x 0"
LINK=ib
tests ""
echo "perftest: $passed runs passed"
