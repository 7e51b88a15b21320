#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# `make demo`: a real KV-cache trace through the rings, the same between two hosts by TCP
# and by RDMA, then what happens when a checkpoint floods them, a client dies, a request is wrong,
# and what the path costs. Under two minutes. Results go to $B/demo; nothing else is left behind.
set -euo pipefail

# gnuplot writes UTF-8, and complains of a locale that cannot.
export LC_ALL=C.UTF-8
B=${B:-build}
out=$B/demo
started=$SECONDS
replay=$B/perf/replay
show=$B/perf/show
failed=()
not_shown=()
transports=

rm -rf "$out"
mkdir -p "$out"
# Sockets, configurations and logs of every tentd that is started below.
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/tent-demo-XXXXXX")
export TMPDIR
job=
cleanup() {
	[ -z "$job" ] || kill "$job" 2> /dev/null || true
	rm -rf "$TMPDIR"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

heading() { printf '\n%s\n' "$1"; }

# In the background, so that a signal ends us at once and cleanup ends it.
run() {
	"$@" & job=$!
	local rc=0
	wait "$job" || rc=$?
	job=
	return $rc
}

must() { # 77: it could not be shown here
	local rc=0
	run "$@" || rc=$?
	case $rc in
	0) ;;
	77) not_shown+=("$*") ;;
	*) failed+=("$*") ;;
	esac
}

available_mib=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
pool_mib=4096
if [ "$available_mib" -lt 6144 ]; then
	pool_mib=$((available_mib / 2 - available_mib / 2 % 64))
fi

# Field N of a row of replay's table.
cell() { awk -v row="$2" -v n="$3" '$1 == row { print $n }' "$1"; }

section_trace() {
	heading "1. 2,000 requests of a real KV-cache trace; tentd, store and server are three processes"
	[ $pool_mib -eq 4096 ] ||
		echo "# note: the pool is $pool_mib MiB, not 4096: $available_mib MiB are available"
	must "$replay" --requests 2000 --pool ${pool_mib}M --out "$out"
}

replay_by() { # TRANSPORT
	local rc=0
	mkdir -p "$out/$1"
	run "$replay" --transport "$1" --requests 300 --pool 1G --spread --out "$out/$1" \
		> "$out/$1/replay.txt" 2> "$out/$1/error.txt" || rc=$?
	rm -f "$out/$1"/replay.png "$out/$1"/replay.svg
	[ $rc = 0 ] || cat "$out/$1"/replay.txt "$out/$1"/error.txt
	case $rc in
	0) transports+=" $1" ;;
	77) not_shown+=("replay --transport $1") ;;
	*) failed+=("replay --transport $1") ;;
	esac
}

fact() { sed -n "s/^# $2  *//p" "$out/$1/replay.txt"; }

transport_row() { # TRANSPORT WHERE
	local file=$out/$1/replay.txt
	printf '  %-5s %-25s %9s %14s %10s %10s %12s %12s\n' "$1" "$2" "$(fact "$1" moved_MiB)" \
		"$(fact "$1" verified_bytes)" "$(cell "$file" foreground_get 5)" \
		"$(cell "$file" foreground_get 6)" "$(cell "$file" checkpoint 5)" \
		"$(cell "$file" checkpoint 6)"
}

section_transports() {
	local name
	heading "2. 300 of them within a host, and between two over TCP and RDMA, a tentd on each"
	for name in shm tcp rdma; do replay_by $name; done
	echo "# every byte read was verified; RDMA is that of software ConnectX devices: simulated, not a latency"
	printf '# %-5s %-25s %9s %14s %10s %10s %12s %12s\n' by between moved_MiB verified_bytes \
		get_p50_us get_p99_us write_p50_us write_p99_us
	for name in $transports; do
		case $name in
		shm) transport_row shm "processes of one host" ;;
		tcp) transport_row tcp "$(hosts tcp)" ;;
		rdma) transport_row rdma "$(hosts rdma)" ;;
		esac
	done
	[ ! -s "$out/rdma/replay.txt" ] || echo "# server's engine          $(fact rdma server_engine)"
	draw perf/transports.gp transports
}

# Without root there is but one.
hosts() { fact "$1" hosts | grep -q '^network' && echo "two network namespaces" || echo "two engines at 127.0.0.1"; }

draw() { # SCRIPT PICTURE
	if ! command -v gnuplot > /dev/null; then
		echo "# picture                  not drawn: gnuplot is not installed"
	elif run gnuplot -e "folder='$out'" "$1"; then
		echo "# picture                  $out/$2.png and .svg"
	else
		failed+=("gnuplot $1")
	fi
}

flood_run() { # NAME OPTIONS...
	local name=$1
	shift
	mkdir -p "$out/$name"
	if ! run "$replay" --requests 400 --pool 1G --spread --out "$out/$name" "$@" \
		> "$out/$name/replay.txt"; then
		cat "$out/$name/replay.txt"
		failed+=("replay $*")
	fi
	rm -f "$out/$name"/replay.png "$out/$name"/replay.svg
}

flood_row() { # NAME WORDS PRIORITIES
	local file=$out/$1/replay.txt
	awk -v what="$2" -v prio="$3" -v p50="$(cell "$file" foreground_get 5)" \
		-v p99="$(cell "$file" foreground_get 6)" -v max="$(cell "$file" foreground_get 8)" \
		-v quiet="$(cell "$out/quiet_$3/replay.txt" foreground_get 6)" \
		-v mib="$(cell "$file" checkpoint_flood 4)" 'BEGIN {
		printf "  %-17s %-10s %10.1f %10.1f %10.1f %8.1fx %14s\n", what, prio, p50, p99, max,
			p99 / quiet, mib == "" ? "-" : sprintf("%.0f", mib) }'
}

section_flood() {
	heading "3. Foreground latency beside a checkpoint that never ends"
	flood_run quiet_off --no-priorities
	flood_run quiet_on
	flood_run flood_off --checkpoint-flood --no-priorities
	flood_run flood_on --checkpoint-flood
	echo "# 400 requests each; arrivals spread between the trace's timestamps; 32 MiB of writes always in flight"
	printf '# %-17s %-10s %10s %10s %10s %9s %14s\n' checkpoint_flood priorities p50_us \
		p99_us max_us to_quiet flood_MiB
	flood_row quiet_off none off
	flood_row quiet_on none on
	flood_row flood_off "all the time" off
	flood_row flood_on "all the time" on
	grep -h '^# warning: other programs' "$out"/*/replay.txt | sort -n -k 6,6 | tail -n 1 |
		sed 's/during the run/during one of them; a row disturbed like that says little/' || true
	draw perf/flood.gp flood
}

section_death() {
	heading "4. A client is killed while its memory is read and written"
	must "$show" killed
}

section_refusal() {
	heading "5. A batch with one bad entry is refused whole"
	must "$show" refused
	heading "6. The same value in compat mode: taken as UNSPEC, and said so"
	must "$show" downgraded
}

section_cost() {
	heading "7. What the path costs, counted"
	must "$show" syscalls
	if command -v valgrind > /dev/null; then
		must perf/cost.sh brief
	else
		echo "  instructions per request               not counted: valgrind is not installed"
	fi
}

section_trace
section_transports
section_flood
section_death
section_refusal
section_cost

heading "Done in $((SECONDS - started)) s. Results: $out"
for what in "${not_shown[@]+"${not_shown[@]}"}"; do
	echo "NOT SHOWN: $what"
done
for what in "${failed[@]+"${failed[@]}"}"; do
	echo "FAILED: $what"
done
[ ${#failed[@]} -eq 0 ]
