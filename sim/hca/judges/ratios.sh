#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How the simulation compares with plain UDP on the same machine, in the same run: large
# writes with large sends that the kernel cuts up (at least a fifth), and small writes with
# a datagram's way there and back. What else runs here disturbs both, so each is taken
# several times, in turns, and the best counts. And polled doorbells are of use even with
# two cores for four threads that spin.
. "$(dirname "$0")/common.sh"
peer=$(dirname "$0")/udp_peer.py
hosts_up

best() { # largest|smallest VALUES..
	local which=$1
	shift
	printf '%s\n' "$@" | sort -g | if [ $which = largest ]; then tail -n 1; else head -n 1; fi
}

# column FILE NUMBER: of perftest's table.
column() { awk -v column=$2 '/^ *[0-9]+ +[0-9]+ / { print $column }' $1; }

bandwidth() {
	pair 18515 $A $A "ib_write_bw -F -x 0 -s 1048576 -n 300" \
		"ib_write_bw -F -x 0 -s 1048576 -n 300 $A_IP" > /dev/null
	column $LOG/client 4 | awk '{ printf "%.0f", $1 * 1.048576 }'	# perftest counts MiB
}

# The median of half a round trip; the whole is asked for.
round_trip() {
	pair 18515 $A $A "ib_write_lat -F -x 0 -s 8 -n 100" \
		"ib_write_lat -F -x 0 -s 8 -n 100 $A_IP" > /dev/null
	column $LOG/client 5 | awk '{ print 2 * $1 }'
}

udp_rates=() write_rates=() udp_rounds=() trap_rounds=() poll_rounds=()
for i in 1 2 3; do
	udp_rates+=("$(python3 $peer rate)")
	write_rates+=("$(bandwidth)")
	udp_rounds+=("$(python3 $peer round)")
	OPTIONS=(--trap)
	trap_rounds+=("$(round_trip)")
	OPTIONS=(--poll)
	poll_rounds+=("$(round_trip)")
	OPTIONS=()
done
udp=$(best largest "${udp_rates[@]}")
write=$(best largest "${write_rates[@]}")
echo "# MB/s: UDP ${udp_rates[*]}, 1 MiB writes ${write_rates[*]}"
echo "# us there and back: UDP ${udp_rounds[*]}, 8 byte writes trapped ${trap_rounds[*]}," \
	"polled ${poll_rounds[*]}"

ratio() { awk -v a=$1 -v b=$2 'BEGIN { printf "%.2f", a / b }'; }
round=$(best smallest "${udp_rounds[@]}")
echo "ok 8 byte write there and back is" \
	"$(ratio $(best smallest "${trap_rounds[@]}") $round) (trapped)," \
	"$(ratio $(best smallest "${poll_rounds[@]}") $round) (polled)" \
	"times a UDP round trip; simulated: not a latency"
reached=$(ratio $write $udp)
awk -v r=$reached 'BEGIN { exit !(r >= 0.2) }' ||
	judge_failed "1 MiB writes reach $reached of UDP's $udp MB/s, not 0.2"
echo "ok 1 MiB writes reach $reached of UDP's $udp MB/s; simulated"
echo "ratios: 2 ratios of one run"
