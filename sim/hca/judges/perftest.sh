#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perftest: latency and bandwidth of every operation over all sizes, many queue pairs,
# both directions, atomics. Numbers are of the simulation: not a latency of anything.
. "$(dirname "$0")/common.sh"
LIMIT_S=300	# a spinning program on a machine that others use gets little done
hosts_up

run() { # both|one|two PROGRAM ARGUMENTS: on how many hosts
	local server="$2 -d mlx5_0 -F $3"
	[ $1 = two ] || pair 18515 $A $A "$server" "$server $A_IP"
	[ $1 = one ] || pair 18515 $A $B "$server" "$server $A_IP"
}

# After each of its 23 sizes perftest measures the clock of the CPU, for a quarter of a
# second: so one of two ways on each link.
tests() { # HOSTS_OF_LAT HOSTS_OF_BW GID: the last are arguments of the link
	local op
	for op in write read send; do
		run $1 ib_${op}_lat "$3 -a -n 5"
		run $2 ib_${op}_bw "$3 -a -n 5"
		run both ib_${op}_lat "$3 -s 64 -n 50"
		run both ib_${op}_bw "$3 -s 4096 -n 50 -q 16"
		run both ib_${op}_bw "$3 -s 4096 -n 100 -b"
	done
	for op in FETCH_AND_ADD CMP_AND_SWAP; do
		run both ib_atomic_lat "$3 -A $op -n 100"
		run both ib_atomic_bw "$3 -A $op -n 100"
	done
}

LINK=roce
tests one two "-x 0"
LINK=ib
tests two one ""
echo "perftest: $passed runs passed"
