#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A BUSY client of a busy tentd makes no syscall while it transfers: none between its
# two getppid() marks. One client uses the ring itself, the other the C API.
set -eu
. tests/tentd.sh
attempts=10

build() { # NAME LIBRARIES...
	${CC:-gcc} -std=gnu11 -O2 -Wall -Werror -Iuapi -o "$work/$1" "tests/compat/$1.c" "${@:2}" -pthread
}

# Syscalls of COMMAND between its marks, one a line, into $work/between. The marks must
# be there, or an empty stretch between them proves nothing.
trace() {
	taskset -c "$ours" strace -f -o "$work/trace" "$@" > "$work/out"
	[ "$(grep -c 'getppid()' "$work/trace")" = 2 ] || { cat "$work/trace"; exit 1; }
	sed '1,/getppid()/d; /getppid()/,$d' "$work/trace" > "$work/between"
	[ -s "$work/between" ] || said="$said; $(cat "$work/out")"
}

refuse() {
	echo "syscalls of a BUSY client while it transfers: $1"
	head -20 "$work/between"
	exit 1
}

# Client and poller on two cores, where there are two.
cpus=$(awk '/^Cpus_allowed_list:/ { print $2 }' /proc/self/status)
ours=${cpus%%[-,]*}
theirs=${cpus##*[-,]}

said=
start_tentd "{\"engine\": {\"idle\": \"busy\", \"cores\": [$theirs]}}"
build ring_client "$B/libtentring.a"
trace "$work/ring_client" "$socket" 200 marked
[ ! -s "$work/between" ] || refuse ring_client

# This one sleeps where tentd is kept off its core for long. So tentd goes before the
# others of a busy machine, where that is allowed; of some attempts one must be without
# any call, and none may make others.
chrt --all-tasks --fifo --pid 1 "$tentd_pid" 2> /dev/null || true
build api_busy "$B/libtent.a" -ljansson -luring -lmlx5 -libverbs -lm
export TENT_ENGINE=unix:$socket
for ((i = 0; i < attempts; i++)); do
	trace "$work/api_busy" 200
	[ -s "$work/between" ] || break
	! grep -vE '  *(<\.\.\. )?(futex|poll|ppoll|sched_yield|membarrier|restart_syscall)[( ]' "$work/between" > "$work/other" ||
		refuse "api_busy"
done
[ ! -s "$work/between" ] || refuse "api_busy, in each of $attempts attempts"

echo "strace_busy: 0 syscalls between the marks$said"
