#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PROGRAMS.. -- PROGRAMS..: runs test programs and scripts and stops at the first that
# fails; three at a time, since most wait more than they compute, and those behind the dashes one
# after the other. Of one that passes it shows the closing lines, of one that fails all.
# Each has a network of its own: ports, and the order in which they are given out, are part of what
# is tested, and so are software devices, of which a network has one owner. Where we may not make
# one, nothing runs beside anything.
# TENT_BUILD tells tests where the programs they start lie. One that takes longer than
# TENT_TEST_SECONDS hangs, as a test of waits does when the property is broken. A test that fails
# ends its program: what it leaves behind, engines and sockets, others may wait for without end.
set -um		# with job control: otherwise what runs in the background ignores SIGINT
TENT_BUILD=$(realpath "$B")
export TENT_BUILD CMOCKA_TEST_ABORT=1
ran=0
limit=${TENT_TEST_SECONDS:-900}
declare -A program=() since=()	# by the pid of what runs now

log_of() { # PROGRAM
	echo "$TENT_BUILD/$(basename "$1").log"
}

start() { # PROGRAM
	"${own[@]}" timeout -k 10 "$limit" "$1" > "$(log_of "$1")" 2>&1 < /dev/null &
	program[$!]=$1
	since[$!]=$SECONDS
}

report() { # PROGRAM STATUS SECONDS
	local log
	log=$(log_of "$1")
	echo "== ${1#"$B"/}"
	if [ $2 != 0 ]; then
		cat "$log"
		[ $2 = 124 ] && echo "HANGS: $1, no end after $limit s"
		echo "FAILED: $1, exit status $2 ($ran passed before it; log: $log)"
		exit 1
	fi
	case $1 in
	*.sh) tail -n 1 "$log" ;;
	*) grep -E 'test\(s\) run\.|\[  (PASSED|SKIPPED) +\]|NOT COMPARED' "$log" ;;
	esac
	echo "   $3 s"
	ran=$((ran + 1))
}

# Waits for the next end.
finish() {
	local pid rc ended
	wait -n -p pid "${!program[@]}"
	rc=$?
	ended=${program[$pid]}
	unset "program[$pid]"
	report "$ended" $rc $((SECONDS - since[$pid]))
}

trap '[ ${#program[@]} = 0 ] || kill "${!program[@]}"' EXIT
trap 'exit 130' INT TERM
at_once=3
own=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh)
"${own[@]}" true 2> /dev/null || { at_once=1; own=(); }
while [ $# != 0 ] && [ "$1" != -- ]; do
	start "$1"
	shift
	[ ${#program[@]} -lt $at_once ] || finish
done
while [ ${#program[@]} != 0 ]; do finish; done
for alone in "${@:2}"; do
	start "$alone"
	finish
done
echo "== $ran programs passed"
