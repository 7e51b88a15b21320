#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What goes over the wire, seen by others: tshark dissects each packet of a captured run,
# and a checker that shares no line with the sender computes each ICRC.
. "$(dirname "$0")/common.sh"
check=$(dirname "$0")/icrc_check.py
hosts_up
ip -n $A addr add fd77::1/64 dev veth0 nodad
ip -n $B addr add fd77::2/64 dev veth0 nodad

capture() { # INTERFACE
	local limit=$((SECONDS + LIMIT_S))
	rm -f $LOG/pcap $LOG/tshark
	ip netns exec $A tshark -q -F pcap -i $1 -f "udp port 4791" -w $LOG/pcap 2> $LOG/tshark &
	tshark=$!
	until grep -qs "Capture started" $LOG/tshark; do
		[ $SECONDS -lt $limit ] || judge_failed "tshark does not begin" $LOG/tshark
		sleep 0.05
	done
}

# sent: what both hosts' devices count, of the last programs in each slot.
sent() {
	for host in $A $B; do ip netns exec $host $SIM ctl show --json; done | python3 -c '
import json, sys
decoder, text, total = json.JSONDecoder(), sys.stdin.read().strip(), 0
while text:
    devices, end = decoder.raw_decode(text)
    total += sum(device["counters"]["wire_sent"] for device in devices)
    text = text[end:].strip()
print(total)'
}

captured() {
	tshark -r $LOG/pcap 2> /dev/null | wc -l
}

# judged NAME FEWEST_PACKETS: all are RoCE v2, none is malformed, each ICRC is right.
judged() {
	local limit=$((SECONDS + LIMIT_S))
	# The kernel hands tshark what it has each second, or later on a machine that is busy.
	until [ $(captured) -ge $2 ] || [ $SECONDS -ge $limit ]; do sleep 0.2; done
	sleep 1
	kill -INT $tshark
	wait $tshark
	tshark -r $LOG/pcap -T fields -e frame.protocols -e _ws.malformed -e infiniband.bth.opcode \
		2> /dev/null > $LOG/fields
	all=$(wc -l < $LOG/fields)
	[ $all -ge $2 ] || judge_failed "$1: $all packets captured, $2 expected" $LOG/tshark
	if grep -vP '^\S*:(rroce|infiniband)\S*\t\t(0x)?[0-9a-f]+$' $LOG/fields > $LOG/odd; then
		judge_failed "$1: tshark does not like these packets" $LOG/odd
	fi
	python3 $check $LOG/pcap > $LOG/icrc || judge_failed "$1: ICRC" $LOG/icrc
	sort $LOG/fields | uniq -c >> $LOG/icrc
	said "capture of $1: $all packets" $LOG/icrc
}

# With CM datagrams; and nothing is captured that the counters do not know, or the other
# way round. A holder of its own, so that they begin at zero.
OPTIONS=(--no-gso)
for LINK in roce ib; do
	(on $A sleep 1000) &
	leases=$!
	(on $B sleep 1000) &
	leases+=" $!"
	capture veth0
	pair rdma_listen $A $B "stdbuf -oL rping -s -d -a $A_IP -C 10" "rping -c -a $A_IP -C 10"
	judged "rping on $LINK" $(sent)
	managed=$(tshark -r $LOG/pcap -Y "infiniband.mad.mgmtclass == 7" 2> /dev/null | wc -l)
	[ $managed -ge 5 ] || judge_failed "$managed CM datagrams, 5 expected" $LOG/fields
	[ $(sent) = $all ] || judge_failed "the devices count $(sent) packets, tshark $all"
	[ $all -ge 60 ] || judge_failed "rping on $LINK: $all packets, 60 expected"
	kill $leases
	wait $leases
	empties $A && empties $B || judge_failed "processes are left"
	passed=$((passed + 2))
	echo "ok $managed CM datagrams, and the counters say $all packets too"
done

LINK=roce
capture veth0
pair 18515 $A $B "ibv_rc_pingpong -g 0 -n 20 -s 65537" "ibv_rc_pingpong -g 0 -n 20 -s 65537 $A_IP"
pair 18515 $A $B "ibv_ud_pingpong -g 0 -n 20 -s 999" "ibv_ud_pingpong -g 0 -n 20 -s 999 $A_IP"
pair 18515 $A $B "ib_write_bw -a -n 10" "ib_write_bw -a -n 10 $A_IP"
pair 18515 $A $B "ib_read_lat -s 30001 -n 20" "ib_read_lat -s 30001 -n 20 $A_IP"
pair 18515 $A $B "ib_atomic_lat -A FETCH_AND_ADD -n 20" "ib_atomic_lat -A FETCH_AND_ADD -n 20 $A_IP"
pair 18515 $A $B "ib_atomic_lat -A CMP_AND_SWAP -n 20" "ib_atomic_lat -A CMP_AND_SWAP -n 20 $A_IP"
judged "IPv4" 2000

capture veth0
pair 18515 $A $B "ibv_rc_pingpong -g 1 -n 20 -s 65537" "ibv_rc_pingpong -g 1 -n 20 -s 65537 $A_IP"
judged "IPv6" 500

LINK=ib
capture veth0
pair 18515 $A $B "ibv_rc_pingpong -n 20 -s 65537" "ibv_rc_pingpong -n 20 -s 65537 $A_IP"
judged "an InfiniBand link" 500

# Large sends that the kernel cuts up on their way out: each piece has its own ICRC.
LINK=roce
OPTIONS=()
ip -n $A link set veth0 gso_max_segs 1
ip -n $B link set veth0 gso_max_segs 1
capture veth0
pair 18515 $A $B "ibv_rc_pingpong -g 0 -n 20 -s 65537" "ibv_rc_pingpong -g 0 -n 20 -s 65537 $A_IP"
judged "large sends cut up" 500
echo "capture: $passed runs passed"
