#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the other judges run, in random order, for TENT_SOAK_SECONDS: as it is; on a wire
# with faults that it must bear; with faults that may end it; with its server or client
# killed at a random instant. Nothing may hang, the devices live on and serve the next, and
# in the end nothing is left. TENT_SEED chooses the order.
if [ -z "${TENT_SOAK_INSIDE:-}" ]; then
	# Folders of its own, in which what is left can be seen.
	exec env TENT_SOAK_INSIDE=1 unshare --mount --propagation private "$0" "$@"
fi
mount -t tmpfs tent-soak /dev/shm || exit 1
here=$(dirname "$0")
. "$here/common.sh"
seconds=${TENT_SOAK_SECONDS:-60}
seed=${TENT_SEED:-$RANDOM}
RANDOM=$seed
echo "soak: $seconds s, seed $seed"

judges=(ibverbs perftest rdmacm ucx fabric lossy tool pyverbs life)
for judge in "${judges[@]}"; do
	TENT_LIST=$LOG/$judge.list "$here/$judge.sh" > /dev/null || exit 1
done
# perftest takes five seconds for all sizes, whatever the device does.
sed -i 's/ -a -n 5/ -s 65536 -n 100/g' $LOG/*.list
hosts_up

# What must be borne by all that is reliable, and by the others where nothing gets lost.
harmless=("jitter=200us" "latency=100us" "late_cqe=50us" "delay_responses=5%" "bandwidth=1gbit")
bearable=("loss=1%" "reorder=0.1%" "drop_requests_count=2" "drop_responses_count=2"
	"drop_responses=1%" "delay_requests=1%")
# What may end a program, or leave it waiting for what never comes.
harsh=("loss=100%" "syndrome_at=7 syndrome=4" "syndrome_at=30 syndrome=34" "nak_at=5 nak=98"
	"nak_at=20 nak=97" "nak_at=9 nak=99" "lost_cqe_at=11" "reg_mr_fails=1" "no_permission=on"
	"link=down" "mtu=256" "max_mr_size=4096" "gid.7=10.1.1.1" "cq_overrun_at=13"
	"loss_count=100" "drop_requests=20%" "reorder=5% reorder_by=2ms"
	"delay_responses_count=9 delay_requests_count=9 delay_by=100ms")
none=(jitter=0 latency=0 late_cqe=0 delay_responses=0 bandwidth=0 loss=0 reorder=0
	drop_requests_count=0 drop_responses_count=0 drop_responses=0 delay_requests=0
	syndrome_at=0 syndrome=0 nak_at=0 nak=0 lost_cqe_at=0 reg_mr_fails=0 no_permission=off
	link=up mtu=4096 max_mr_size=0 gid.7=none cq_overrun_at=0 loss_count=0 drop_requests=0
	reorder_by=0 delay_responses_count=0 delay_requests_count=0 delay_by=0 timeouts=0)

pick() { # VALUES..: one of them, in $picked
	shift $((RANDOM % $#))
	picked=$1
}

settings() { # NAME=VALUE..: on both hosts
	local host
	for host in $A $B; do
		ip netns exec $host $SIM ctl set "$@" || judge_failed "ctl set $*"
	done
}

# Tests that look at the clock, or set things themselves, want a wire as it was made.
is_for_a_sound_wire() {
	case $1 in
	*verbs_suite* | */rare* | */order*) return 0 ;;
	esac
	return 1
}

is_reliable() {
	case $1 in
	*ud_pingpong* | *udaddy* | *dgram* | *rping* | *cmatose* | *fi_pingpong*) return 1 ;;
	esac
}

# ends_soon PID: a program that is asked to end has no way to stay.
ends_soon() {
	local tries=0
	kill $1 2> /dev/null
	while kill -0 $1 2> /dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 200 ] || judge_failed "a program does not end: $what" $LOG/server $LOG/client
		sleep 0.05
	done
	wait $1
}

# Both at once, or one alone, and after a while they are ended, unless they have ended
# themselves.
try() { # SIGN SERVER_HOST CLIENT_HOST SERVER CLIENT
	local server client tries=0 victim=
	(on $2 $4) > $LOG/server 2>&1 &
	server=$!
	client=$server
	if [ -n "$5" ]; then
		comes_up $2 "$1" $LOG/server $server
		(on $3 $5) > $LOG/client 2>&1 &
		client=$!
	fi
	if [ $kind = kill ]; then
		if [ $((RANDOM % 2)) = 0 ]; then victim=$server; else victim=$client; fi
		sleep 0.$(printf %03d $((RANDOM % 400)))
		pkill -KILL -P $victim
	fi
	while kill -0 $server 2> /dev/null || kill -0 $client 2> /dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 20 ] || break
		sleep 0.05
	done
	ends_soon $client
	[ $client = $server ] || ends_soon $server
	return 0
}

# The host is as if nothing had happened.
clean() {
	pair 18515 $A $B "ibv_rc_pingpong ${gid[*]} -n 10 -c" \
		"ibv_rc_pingpong ${gid[*]} -n 10 -c $A_IP" > /dev/null
	[ "$before" = "$(holders)" ] || judge_failed "a holder has ended after: $what"
}

run() {
	local link options sign server_host client_host server client
	pick "${judges[@]}"
	mapfile -t programs < $LOG/$picked.list
	pick "${programs[@]}"
	IFS='|' read -r link options sign server_host client_host server client <<< "$picked"
	: ${client_host:=A}		# where nobody is
	[ $link = $LINK ] || return
	pick plain harmless bearable harsh kill
	kind=$picked
	OPTIONS=()
	[ $((RANDOM % 4)) != 0 ] || OPTIONS=(--poll)
	[ $kind != bearable ] || is_reliable "$server" || kind=harmless
	case $kind in bearable | harmless) is_for_a_sound_wire "$server" && kind=plain ;; esac
	what="$kind: ${client:-$server}"
	case $kind in
	harmless | bearable | harsh)
		declare -n list=$kind
		pick "${list[@]}"
		what="$kind $picked: ${client:-$server}"
		settings $picked
		[ $kind != bearable ] || OPTIONS+=(--fault timeouts=100%)
		;;
	esac
	(case $kind in
	harsh | kill) try "$sign" ${!server_host} ${!client_host} "$server" "$client" ;;
	*) [ $kind != bearable ] || LOSES=yes
	if [ -n "$client" ]; then
		pair "$sign" ${!server_host} ${!client_host} "$server" "$client"
	else
		one ${!server_host} $server
	fi ;;
	esac) > $LOG/out 2>&1 || { echo "$what"; cat $LOG/out; exit 1; }
	[ $kind = plain ] || settings "${none[@]}"
	counts[$kind]=$((${counts[$kind]:-0} + 1))
	echo "ok $what ${OPTIONS[*]}"
	OPTIONS=()
	clean
}

# What the host says of itself can be read, and every other time its device goes while a
# program runs on it.
last_words() {
	ip netns exec $A $SIM ctl show --json | python3 -m json.tool > /dev/null ||
		judge_failed "ctl show --json after: $what"
	[ $((RANDOM % 2)) = 0 ] || return
	(on $A ibv_rc_pingpong ${gid[*]} -n 100000000) > $LOG/server 2>&1 &
	local server=$!
	comes_up $A 18515 $LOG/server $server
	(on $B ibv_rc_pingpong ${gid[*]} -n 100000000 $A_IP) > $LOG/client 2>&1 &
	what="removed=on"
	settings removed=on
	ends_soon $!
	ends_soon $server
	counts[harsh]=$((${counts[harsh]:-0} + 1))
	echo "ok harsh removed=on: ibv_rc_pingpong"
}

declare -A counts
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
	pick roce ib
	LINK=$picked
	gid=()
	[ $LINK = ib ] || gid=(-g 0)
	OPTIONS=()
	(on $A sleep 10000) 2> /dev/null &
	leases=$!
	(on $B sleep 10000) &
	leases+=" $!"
	what="the beginning"
	until before=$(holders) && [ $(wc -w <<< "$before") = 2 ]; do sleep 0.05; done
	clean
	turn=$((SECONDS + 15))
	while [ $SECONDS -lt $turn ] && [ $SECONDS -lt $end ]; do run; done
	last_words
	kill $leases
	wait $leases
	empties $A && empties $B || judge_failed "processes are left"
	left=$(ls -A /dev/shm)
	[ -z "$left" ] || judge_failed "files are left in /dev/shm: $left"
	for host in $A $B; do
		ip netns exec $host cat /proc/net/udp /proc/net/udp6 | grep -v local_address &&
			judge_failed "sockets are left"
	done
done
for kind in "${!counts[@]}"; do echo "# $kind: ${counts[$kind]}"; done
total=0
for kind in "${!counts[@]}"; do total=$((total + ${counts[$kind]})); done
echo "soak: $total runs in $seconds s, seed $seed"
