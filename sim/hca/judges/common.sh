# SPDX-License-Identifier: Apache-2.0
# common.sh - what the judges share. Two hosts, two network namespaces joined by a veth;
# programs run in one of them, or as a pair of server and client; everything they print
# goes to the log, and to the screen when they fail. Sourced by bash.
#
# TENT_LIST=FILE: a judge runs nothing, and writes what it would run: a line for each pair, and
# one without a sign and a client for a program alone.
set -u
: "${TENT_BUILD:?the folder of tent-sim}"
LIMIT_S=${TENT_JUDGE_SECONDS:-120}	# a judge that hangs has judged
A=tentA$$
B=tentB$$
A_IP=192.168.77.1
B_IP=192.168.77.2
LINK=roce
DEVICES=1
OPTIONS=()			# more of tent-sim's
AS=()				# what runs tent-sim as another user, who may set no fault
# Retries of half a second in all are too short for a machine that others use.
PATIENCE=(--fault timeouts=400%)
LOG=$(mktemp -d /tmp/tent-judge.XXXXXX)
passed=0

# Other users do not reach the build folder where it lies in root's home. A list outlives $LOG.
SIM=$TENT_BUILD/tent-sim
if [ -z "${TENT_LIST:-}" ]; then
	chmod 711 $LOG
	cp $SIM $TENT_BUILD/libtent-hca.so $TENT_BUILD/sim/hca/judges/life $LOG || exit 1
	SIM=$LOG/tent-sim
	PATH=$LOG:$PATH
fi

# ---- hosts

hosts_up() {
	if [ -n "${TENT_LIST:-}" ]; then A=A; B=B; return; fi
	ip netns add $A && ip netns add $B || exit 1
	ip link add veth0 netns $A mtu 9000 type veth peer name veth0 netns $B mtu 9000
	host_up $A $A_IP
	host_up $B $B_IP
}

host_up() {
	ip -n $1 addr add $2/24 dev veth0
	ip -n $1 link set lo up
	ip -n $1 link set veth0 up
}

# empties HOST: some time after its last program's end nothing runs there.
empties() {
	local limit=$((SECONDS + LIMIT_S))
	while ip netns pids $1 | grep -q .; do
		[ $SECONDS -lt $limit ] || return 1
		sleep 0.05
	done
}

# The processes that are the hosts' devices.
holders() {
	local host pid
	for host in $A $B; do
		for pid in $(ip netns pids $host); do
			grep -sqx tent-sim-host /proc/$pid/comm && echo $pid
		done
	done
}

hosts_down() {
	local host pid
	for host in $A $B; do
		for pid in $(ip netns pids $host 2> /dev/null); do kill -9 $pid; done
		ip netns del $host 2> /dev/null
	done
	rm -rf "$LOG"
}

# ---- programs

# on HOST CMD..: runs a program on the simulated devices of a host.
on() {
	local host=$1
	shift
	[ ${#AS[@]} = 0 ] || PATIENCE=()
	exec timeout -k 2 $LIMIT_S ip netns exec $host "${AS[@]}" \
		$SIM --devices $DEVICES --link $LINK "${PATIENCE[@]}" "${OPTIONS[@]}" "$@"
}

judge_failed() { # what, log files..
	echo "FAILED: $1 (link $LINK, devices $DEVICES, options ${OPTIONS[*]:-none})"
	shift
	for file in "$@"; do
		echo "---- ${file##*/}"
		tail -n 60 "$file"
	done
	exit 1
}

# said NAME FILE: the whole output into the log of the run, the last line for a person.
said() {
	passed=$((passed + 1))
	sed 's/^/    /' "$2"
	echo "ok $1"
}

# one HOST CMD..: a program alone.
one() {
	if [ -n "${TENT_LIST:-}" ]; then
		echo "$LINK|${OPTIONS[*]}||$1||${*:2}|" >> "$TENT_LIST"
		return
	fi
	(on "$@") > $LOG/one 2>&1 || judge_failed "${*:2}" $LOG/one
	said "${*:2}" $LOG/one
}

# listens HOST PORT
listens() {
	ip netns exec $1 cat /proc/net/tcp /proc/net/tcp6 |
		awk -v port=":$(printf %04X $2)" '$2 ~ port"$" && $4 == "0A" { yes = 1 } END { exit !yes }'
}

# is_up HOST SIGN FILE: a port that is listened on, or words in what the server has printed.
is_up() {
	case $2 in
	*[!0-9]*) grep -qsE -- "$2" $3 ;;
	*) listens $1 $2 ;;
	esac
}

# comes_up HOST SIGN FILE PID: waits for the sign, while the server lives.
comes_up() {
	local limit=$((SECONDS + LIMIT_S))
	until is_up $1 "$2" $3; do
		kill -0 $4 2> /dev/null || return 1
		[ $SECONDS -lt $limit ] || { kill $4; return 1; }
		sleep 0.02
	done
}

# client HOST CMD..: a server that only says that it is about to listen may do so later.
client() {
	local tries=0
	until (on "$@") > $LOG/client 2>&1; do
		tries=$((tries + 1))
		grep -qE 'EVENT_(REJECTED|UNREACHABLE), error' $LOG/client && [ $tries -lt 100 ] ||
			return 1
		sleep 0.2
	done
}

# is_unanswered FILE: all it complains of is that its peer no longer answers.
is_unanswered() {
	grep -q "transport retry counter exceeded" $1
}

# status_of PID [SIGN FILE]: into $status; "waits": it had 5 s, of those after the sign, and was
# ended.
status_of() {
	local tries=0
	while kill -0 $1 2> /dev/null; do
		[ $# -gt 1 ] && ! grep -q "$2" $3 || tries=$((tries + 1))
		[ $tries -lt 100 ] || { kill $1; wait $1; status=waits; return; }
		sleep 0.05
	done
	wait $1
	status=$?
}

# ends PID HOW: well; or within 5 s at all, where the news of the end may get lost; or without
# the last acknowledgement, where it was lost and its sender has left.
MAY_MISS_THE_END=
LOSES=				# set: packets may get lost
ends() {
	if [ -z "$2" ]; then wait $1; return; fi
	status_of $1
	case $status in
	0 | waits) ;;
	*) [ $2 = acknowledgement ] && is_unanswered $LOG/server ;;
	esac
}

# missed_the_end STATUS FILE: RxM of libfabric 1.17 was told that its peer had left, when all
# sizes were done, and closed the connection (rxm_process_shutdown() of rxm_conn.c) before it
# looked at the CQ again; and vrb_ep_close() of verbs_ep.c destroys the QP first, so that
# libmlx5 takes the QP's completions out of the CQ, then calls the sends flushed and drops the
# receives. That is what becomes of whoever is preempted between looking there, in
# rxm_ep_do_progress(), and asking for events: it says so (ECANCELED is 125) or waits for ever.
RXM_CLOSES='rxm_process_shutdown.*shutdown conn'
missed_the_end() {
	grep -q "$RXM_CLOSES" $2 && grep -q '^1m  *10  *=10 ' $2 &&
	case $1 in
	125) grep -q 'cq_readerr: Work Request Flushed Error' $2 ;;
	waits) ;;
	*) false ;;
	esac
}

# rxm_ends SERVER CLIENT: both well, or one well, and the other missed that.
rxm_ends() {
	local server_status
	while kill -0 $1 2> /dev/null && kill -0 $2 2> /dev/null; do sleep 0.05; done
	status_of $1 "$RXM_CLOSES" $LOG/server
	server_status=$status
	status_of $2 "$RXM_CLOSES" $LOG/client
	case $server_status,$status in
	0,0) ;;
	0,*) missed_the_end $status $LOG/client ;;
	*,0) missed_the_end $server_status $LOG/server ;;
	*) false ;;
	esac
}

# pair SIGN SERVER_HOST CLIENT_HOST "SERVER" "CLIENT": the client starts when the server
# gives the sign, both must end well.
pair() {
	local server how=$MAY_MISS_THE_END
	if [ -n "${TENT_LIST:-}" ]; then
		echo "$LINK|${OPTIONS[*]}|$1|$2|$3|$4|$5" >> "$TENT_LIST"
		return
	fi
	(on $2 $4) > $LOG/server 2>&1 &
	server=$!
	comes_up $2 "$1" $LOG/server $server || judge_failed "server: $4" $LOG/server
	if [[ $4 == *"fi_pingpong -e rdm"* ]]; then
		(on $3 $5) > $LOG/client 2>&1 &
		rxm_ends $server $! || judge_failed "$5" $LOG/client $LOG/server
		said "$5" $LOG/client
		return
	fi
	# Whichever of the two leaves first, its last acknowledgement may be lost. The other
	# programs end by agreement, on TCP or by the connection manager.
	[ -z "$LOSES" ] || [[ $4 != *ibv_*_pingpong* && $4 != *"fi_pingpong -e msg"* ]] ||
		how=acknowledgement
	if ! client $3 $5; then
		[ "$how" = acknowledgement ] && is_unanswered $LOG/client || {
			kill $server 2> /dev/null
			judge_failed "client: $5" $LOG/client $LOG/server
		}
		how=
	fi
	ends $server "$how" || judge_failed "server: $4" $LOG/server $LOG/client
	said "$5" $LOG/client
}

# The same between two programs of one host and between two hosts.
everywhere() { # SIGN SERVER CLIENT; @ stands for the server's address
	pair "$1" $A $A "$2" "${3//@/$A_IP}"
	pair "$1" $A $B "$2" "${3//@/$A_IP}"
}

# listed: the rest of a judge is not for lists.
listed() {
	[ -z "${TENT_LIST:-}" ] || exit 0
}

trap hosts_down EXIT
trap 'exit 130' INT TERM
