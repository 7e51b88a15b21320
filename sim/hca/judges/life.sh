#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# How programs live and die: fork, exec, dup and waiting for events, trapped and polled; a
# kill at any instant; users that are not root; many at once.
. "$(dirname "$0")/common.sh"
hosts_up

ok() {
	passed=$((passed + 1))
	echo "ok $1"
}

# ---- fork, exec, dup, events; life.c says more

for LINK in roce ib; do
	for mode in --trap --poll; do
		OPTIONS=($mode)
		one $A life
		one $A setpriv --reuid 65534 --regid 65534 --clear-groups life
	done
done
listed
OPTIONS=()
LINK=roce
empties $A || judge_failed "processes are left"
ok "nothing is left of them"

# ---- killed at any instant

clean() {
	pair 18515 $A $B "ibv_rc_pingpong -g 0 -n 20 -c" "ibv_rc_pingpong -g 0 -n 20 -c $A_IP" \
		> /dev/null
}

kill_program() { # PID of a timeout(1), whose child it is
	pkill -KILL -P $1
}

(on $A sleep 1000) &
lease_a=$!
(on $B sleep 1000) &
lease_b=$!
until before=$(holders) && [ $(wc -w <<< "$before") = 2 ]; do sleep 0.05; done
clean
for delay in 0.02 0.1 0.2 0.3; do
	for victim in server client; do
		(on $A ibv_rc_pingpong -g 0 -n 100000000) > $LOG/server 2>&1 &
		server=$!
		comes_up $A 18515 $LOG/server $server || judge_failed "no server" $LOG/server
		(on $B ibv_rc_pingpong -g 0 -n 100000000 $A_IP) > $LOG/client 2>&1 &
		client=$!
		sleep $delay
		kill_program ${!victim}
		sleep 0.1
		kill_program $server
		kill_program $client
		wait $server $client
		clean
	done
	ok "server and client killed after $delay s leave a host on which others work"
done 2> /dev/null	# bash tells who was killed
[ "$before" = "$(holders)" ] || judge_failed "a holder has ended"
kill $lease_a $lease_b
wait $lease_a $lease_b
empties $A && empties $B || judge_failed "processes are left"
ok "nothing is left of them"

# ---- users

as() { # USER
	AS=(setpriv --reuid $1 --regid $1 --clear-groups)
}

# The first one's tent-sim starts the holder.
for first in 65534 0; do
	as $first
	(on $A sleep 1000) &
	lease=$!
	until [ -n "$(holders)" ]; do sleep 0.05; done
	as 65534
	(on $A ibv_rc_pingpong -g 0 -n 200 -c) > $LOG/server 2>&1 &
	server=$!
	comes_up $A 18515 $LOG/server $server || judge_failed "no server" $LOG/server
	as 1
	(on $A ibv_rc_pingpong -g 0 -n 200 -c 127.0.0.1) > $LOG/client 2>&1 ||
		judge_failed "client of user 1" $LOG/client $LOG/server
	wait $server || judge_failed "server of user 65534" $LOG/server
	kill $lease
	wait $lease
	AS=()
	empties $A || judge_failed "processes are left"
	ok "users 65534 and 1 on the devices that user $first began"
done

# ---- many

pids=()
for port in 19001 19002 19003 19004 19005 19006; do
	(on $A ibv_rc_pingpong -g 0 -n 100 -e -c -p $port) > $LOG/server$port 2>&1 &
	pids+=($!)
	comes_up $A $port $LOG/server$port $! || judge_failed "no server" $LOG/server$port
done
for port in 19001 19002 19003 19004 19005 19006; do
	(on $B ibv_rc_pingpong -g 0 -n 100 -e -c -p $port $A_IP) > $LOG/client$port 2>&1 &
	pids+=($!)
done
for pid in "${pids[@]}"; do
	wait $pid || judge_failed "one of many" $LOG/server19* $LOG/client19*
done
ok "six servers and six clients at once"
echo "life: $passed checks passed"
