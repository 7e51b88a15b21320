#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tent-sim itself: what it refuses and how it says so, what can be set while programs run
# and what they see of it, other users, and that it leaves nothing behind.
. "$(dirname "$0")/common.sh"
hosts_up

ok() {
	passed=$((passed + 1))
	echo "ok $1"
}

# says STATUS TEXT CMD..: ends with the status, and the text is in what it prints.
says() {
	local status=$1 text=$2
	shift 2
	local rc limit="timeout -k 2 $LIMIT_S"
	[ "$1" != with ] || limit=	# has its own
	$limit "$@" > $LOG/says 2>&1
	rc=$?
	[ $rc = $status ] || judge_failed "\"$*\" ended with $rc, not $status" $LOG/says
	grep -qF -- "$text" $LOG/says || judge_failed "\"$*\" does not say \"$text\"" $LOG/says
	ok "says \"$text\""
}

# with OPTIONS -- SCRIPT: a shell on the devices of host A; T is tent-sim.
with() {
	local options=()
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	ip netns exec $A env T=$SIM timeout -k 2 $LIMIT_S $SIM "${options[@]}" bash -c "$2"
}

imperfect_wire() {
	local fault one LOSES=yes
	for fault in loss=1% "latency=20us jitter=200us" reorder=0.1% bandwidth=100mbit \
		drop_responses=1% drop_requests_count=3 "delay_responses=2% delay_by=300us"; do
		OPTIONS=(--fault timeouts=100%)
		for one in $fault; do OPTIONS+=(--fault $one); done
		pair 18515 $A $B "ibv_rc_pingpong -g 0 -s 20000 -n 50 -c" \
			"ibv_rc_pingpong -g 0 -s 20000 -n 50 -c $A_IP"
		ok "pingpong with $fault"
	done
}

[ -z "${TENT_LIST:-}" ] || imperfect_wire > /dev/null
listed

# ---- what it refuses

says 0 "usage: tent-sim" $SIM --help
says 0 "0 to 1000000ppm" $SIM ctl --help
says 0 "usage: tent-sim hosts" $SIM hosts --help
says 2 "there is no command to run" $SIM
says 2 "--devices 9: a number from 1 to 8" $SIM --devices 9 true
says 2 "--ports 3: a number from 1 to 2" $SIM --ports 3 true
says 2 "--link eth: roce or ib" $SIM --link eth true
says 2 "--link needs a value" $SIM --link
says 2 "--fast: there is no such option" $SIM --fast true
says 2 "hosts 65: how many, from 1 to 64" $SIM hosts 65
says 2 "a device (mlx5_0 to mlx5_7), show or set" $SIM ctl shew
says 1 "no devices here" ip netns exec $B $SIM ctl show
says 127 "No such file or directory" ip netns exec $A $SIM /nonexistent
says 2 "loss takes 0 to 100%" ip netns exec $A $SIM --fault loss=2 true
says 2 "devices are mlx5_0 to mlx5_1" ip netns exec $A $SIM --devices 2 --fault mlx5_x:loss=2% true
says 1 "runs with --devices 2, not 1" with --devices 2 -- '$T --devices 1 true'
says 1 "runs with --link ib, not roce" with --link ib -- '$T --link roce true'

# ---- what can be set

says 0 "GUID" with --devices 8 --ports 2 -- 'ibv_devices'
says 0 '10.9.8.7' with -- '$T ctl 0 set gid.5=10.9.8.7 && ibv_devinfo -v'
says 0 "PORT_DOWN" with --fault link=down -- 'ibv_devinfo'
says 0 "active_mtu:		1024" with --fault mtu=1024 -- 'ibv_devinfo'
says 1 "Failed to open device" with --fault no_permission=on -- 'ibv_devinfo'
says 1 "Couldn't register MR" with --fault reg_mr_fails=1 -- 'ibv_rc_pingpong -g 0'
says 1 "Couldn't register MR" with --fault max_mr_size=64K -- 'ibv_rc_pingpong -g 0 -s 65537'
says 0 "max_mr_size:			0x10000" with --fault max_mr_size=64K -- 'ibv_devinfo -v'

for event in link=down:PORT_ERR gid.2=10.1.1.1:GID_CHANGE removed=on:DEVICE_FATAL; do
	: > $LOG/events
	with -- "stdbuf -oL ibv_asyncwatch > $LOG/events 2>&1 & p=\$!
		until grep -q FD $LOG/events; do sleep 0.05; done
		\$T ctl 0 set ${event%%:*}
		until grep -q event_type $LOG/events; do sleep 0.05; done
		kill \$p" > $LOG/out 2>&1
	grep -q "${event#*:}" $LOG/events || judge_failed "event of ${event%%:*}" $LOG/events $LOG/out
	ok "${event%%:*} is told as ${event#*:}"
done

says 0 "192.168.77.9" with -- 'ip addr add 192.168.77.9/24 dev veth0
	until $T ctl show | grep gid.*77.9; do sleep 0.05; done
	ip addr del 192.168.77.9/24 dev veth0
	while $T ctl show | grep -q gid.*77.9; do sleep 0.05; done'
# Told of the change, the holder cannot look at once.
says 0 "INJECTED" with -- 'ip addr add 192.168.77.9/24 dev veth0
	until $T ctl show | grep -q gid.*77.9; do sleep 0.05; done
	for pid in $(ip netns pids $(ip netns identify)); do
		grep -sqx tent-sim-host /proc/$pid/comm && holder=$pid
	done
	strace -o '$LOG'/strace -e trace=socket -e inject=socket:error=ENFILE:when=1 -p $holder &
	until grep -qs TracerPid:.*[1-9] /proc/$holder/status; do sleep 0.02; done
	ip addr del 192.168.77.9/24 dev veth0
	while $T ctl show | grep -q gid.*77.9; do sleep 0.05; done
	kill $!; wait $!; cat '$LOG'/strace'
says 0 "PORT_DOWN" with -- 'ip link set veth0 down
	until ibv_devinfo | grep PORT_DOWN; do sleep 0.05; done
	ip link set veth0 up
	until ibv_devinfo | grep -q PORT_ACTIVE; do sleep 0.05; done'

with --fault loss=1% -- '$T ctl show --json' | python3 -c '
import json, sys
device, = json.load(sys.stdin)
assert device["faults"]["loss"] == 10000 and device["counters"]["wqes"] == 0, device
assert device["ports"][0]["state"] == "up" and device["ports"][0]["gids"], device
' || judge_failed "ctl show --json"
ok "ctl show --json"

# A message that nobody ever acknowledges, seen from outside.
with --fault drop_requests=100% --fault timeouts=10000% -- '
	ibv_rc_pingpong -g 0 -s 20000 > /dev/null &
	until grep -qi ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6; do sleep 0.05; done
	ibv_rc_pingpong -g 0 -s 20000 127.0.0.1 > /dev/null &
	until $T ctl 0 show --json | grep -q "bytes_in_flight.*[1-9]"; do sleep 0.05; done
	$T ctl 0 show --json; kill %1 %2' 2> $LOG/out | python3 -c '
import json, sys
device, = json.load(sys.stdin)
sender, = [p for p in device["processes"] if p["bytes_in_flight"]]
qp, = sender["qps_in_flight"]
assert device["bytes_in_flight"] == sender["bytes_in_flight"] == qp["bytes"] == 20000, device
assert (qp["next_psn"] - qp["first_psn"]) % 2**24 == 20 and qp["qpn"] >> 16 == sender["slot"], qp
' || judge_failed "bytes in flight in ctl show --json" $LOG/out
ok "bytes in flight in ctl show --json"

# ---- a wire that is not perfect: slower, but nothing is lost

imperfect_wire

# The client ends when the last message has come, and its acknowledgement is on its way.
OPTIONS=(--fault delay_responses=100% --fault delay_by=30ms)
pair 18515 $A $B "ibv_rc_pingpong -g 0 -n 3" "ibv_rc_pingpong -g 0 -n 3 $A_IP"
ok "a packet outlives its sender"

# ---- users

says 0 "mlx5_0" with -- 'setpriv --reuid 65534 --regid 65534 --clear-groups ibv_devinfo'
says 1 "only root and user 0" with -- \
	'setpriv --reuid 65534 --regid 65534 --clear-groups $T ctl set loss=1%'
says 0 "PORT_ACTIVE" ip netns exec $B setpriv --reuid 65534 --regid 65534 --clear-groups \
	$SIM ibv_devinfo

# ---- hosts

says 7 "host 1 of 3" $SIM hosts 3 -- bash -c 'echo host $TENT_SIM_HOST of $TENT_SIM_HOSTS
	touch '$LOG'/host$TENT_SIM_HOST; [ $TENT_SIM_HOST = 2 ] || sleep 1000
	until [ -e '$LOG'/host1 ]; do sleep 0.05; done; exit 7'
says 0 "1000 iters" $SIM hosts 2 --link ib "${PATIENCE[@]}" -- bash -c 'if [ $TENT_SIM_HOST = 1 ]
	then ibv_rc_pingpong
	else until ibv_rc_pingpong $TENT_SIM_ADDRESS_1; do sleep 0.1; done; fi'
$SIM hosts 2 sleep 1000 > $LOG/out 2>&1 &
hosts=$!
until ip netns list | grep -q "tent-sim-$hosts-2"; do
	kill -0 $hosts || judge_failed "no hosts" $LOG/out
	sleep 0.05
done
kill -KILL $hosts
wait $hosts
says 0 "1" $SIM hosts 1 -- echo 1
! ip netns list | grep tent-sim-$hosts- || judge_failed "a namespace is left"
ok "hosts of a killed tent-sim are taken down by the next"

# ---- what the README says can be typed

sed -n '/^```sh/,/^```$/p' "$(dirname "$0")/../README.md" |
	sed -e '/^```/d' -e '/^make /d' -e "s|build/tent-sim|$SIM|g" -e "s|/tmp/trace|$LOG/trace|g" > $LOG/quick
[ $(grep -c "$SIM" $LOG/quick) = 7 ] || judge_failed "commands in README.md" $LOG/quick
says 0 "cqe cqn" ip netns exec $A bash -e $LOG/quick
for text in mlx5_0 "1000 iters" MsgRate "fault loss=1%" PORT_DOWN; do
	grep -qF "$text" $LOG/says || judge_failed "README.md: no \"$text\"" $LOG/says
done

# ---- nothing is left

with -- 'echo; until [ -e '$LOG'/killed ]; do sleep 0.05; done' > $LOG/out 2>&1 &
until [ -s $LOG/out ]; do sleep 0.05; done
for pid in $(ip netns pids $A); do
	[ "$(cat /proc/$pid/comm)" != tent-sim-host ] || kill -9 $pid
done
touch $LOG/killed
wait $!
says 0 "mlx5_0" with -- ibv_devices
empties $A || judge_failed "a process is left"
ok "no process is left"
echo "tool: $passed checks passed"
