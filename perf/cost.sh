#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The cost contract, counted: instructions, lines, syscalls, heap calls and locked
# instructions per request, by callgrind on cost_driver. Fails over budget.
#
#   perf/cost.sh          everything, one table
#   perf/cost.sh brief    two facts for the demo
#
# Counts, not times: the same on every machine. What callgrind collects is what runs
# inside one function (--toggle-collect) between cost_begin() and cost_end(), in the
# thread that drives both ends. Syscalls it counts there are all of that thread's.
set -eu
B=${B:-build}
driver=$B/perf/cost_driver
wqe_cost=$B/perf/wqe_cost
rdma_cost=$B/perf/rdma_cost
out=$B/cost
rounds=256
sim=			# what runs the counted program
but=			# a function inside of which nothing is counted
mkdir -p "$out"
failed=0

# collect FUNCTION VECTOR BATCH: counts into $out/FUNCTION.VECTOR.BATCH, and what the
# driver says into the same with .said. Fair, or the driver may spin for ever on what the
# control thread has and is not let run to give back.
collect() {
	local file=$out/$1.$2.$3
	rm -f "$file" "$file".*
	$sim valgrind -q --fair-sched=yes --tool=callgrind --callgrind-out-file="$file" \
		--separate-threads=yes \
		--toggle-collect="$1" ${but:+--toggle-collect=$but} --zero-before=cost_begin --dump-before=cost_end --collect-systime=yes \
		--dump-instr=${instr:-no} --compress-pos=${positions:-yes} \
		"$driver" "$2" "$3" > "$file.said" 2>&1 || { cat "$file.said"; exit 1; }
	mv "$file.1-01" "$file"
	rm -f "$file"-0* "$file".?*-0*
}

instructions() { sed -n 's/^summary: \([0-9]*\).*/\1/p' "$out/$1.$2.$3"; }
syscalls() { syscalls_in "$out/$1.$2.$3"; }
# Of files, but for those that read the clock in poller_resync(), once a second: they are
# calls of the vDSO, which valgrind does not have.
syscalls_in() {
	awk '
	/^summary:/ { sum += $3 }
	/^cfn=.*poller_resync/ { id = $0; sub(/\).*/, "", id); resync[id] = 1 }
	/^cfn=/ { id = $0; sub(/\).*/, "", id); called = id }
	/^calls=/ { getline; if (called in resync) sum -= $4 }
	END { print sum + 0 }' "$@"
}
per_request() { awk -v n="$1" -v d=$((rounds * $2)) 'BEGIN { printf "%.1f", n / d }'; }

# Functions that ran, from a callgrind file: those with a cost line of their own.
seen() {
	awk '
	/^fn=/ {
		id = $0; sub(/^fn=/, "", id); name = id
		sub(/\).*/, ")", id); sub(/^\([0-9]*\) ?/, "", name)
		if (name != "") names[id] = name
		current = names[id]; next
	}
	/^c?fn=|^cfn=/ {
		id = $0; sub(/^cfn=/, "", id); name = id
		sub(/\).*/, ")", id); sub(/^\([0-9]*\) ?/, "", name)
		if (name != "") names[id] = name; next
	}
	/^positions:/ { cost = NF }
	/^calls=/ { inclusive = 1; next }
	/^[0-9+*-]/ {
		if (inclusive) inclusive = 0
		else if ($cost > 0) ran[current] = 1
	}
	END { for (f in ran) { sub(/\x27[0-9]+$/, "", f); print f } }' "$1" | sort -u
}

# Instructions that lie in lines FROM..TO of a source file, inlined or not.
in_lines() { # FILE SOURCE FROM TO
	awk -v want="$2" -v from="$3" -v to="$4" '
	/^f[lie]=/ {
		id = $0; sub(/^f[lie]=/, "", id); name = id
		sub(/\).*/, ")", id); sub(/^\([0-9]*\) ?/, "", name)
		if (name != "") names[id] = name
		ours = names[id] ~ want "$"; next
	}
	/^cf[il]=/ {
		id = $0; sub(/^cf[il]=/, "", id); name = id
		sub(/\).*/, ")", id); sub(/^\([0-9]*\) ?/, "", name)
		if (name != "") names[id] = name; next
	}
	/^calls=/ { inclusive = 1; next }
	/^[0-9+*-]/ {
		if ($1 ~ /^\+/) line += substr($1, 2)
		else if ($1 ~ /^-/) line -= substr($1, 2)
		else if ($1 != "*") line = $1
		if (inclusive) inclusive = 0
		else if (ours && line >= from && line <= to) sum += $2
	}
	END { print sum + 0 }' "$1"
}

# The lines of a function's body: "FROM TO".
body() { # SOURCE FUNCTION
	awk -v f="$2" '
	!from && $0 ~ "(^|[ *])" f "\\(" && !/;/ { from = NR }
	from && /^}/ { print from, NR; exit }' "$1"
}

# Instructions that lie in the bodies of these functions of SOURCE, inlined or not.
in_bodies() { # FILE SOURCE FUNCTION...
	local file=$1 source=$2 sum=0 name
	shift 2
	for name; do
		set -- $(body "$source" "$name")
		[ $# = 2 ] || { echo "cost: $source has no $name() any more" >&2; continue; }
		sum=$((sum + $(in_lines "$file" "$source" "$1" "$2")))
	done
	echo $sum
}

# Locked instructions (lock prefix, xchg with memory) in the functions named on stdin,
# run or not. A full fence is spelled as a locked instruction, but shares nothing and
# lies beside the path for clients without membarrier: fences() counts those that ran.
locked() {
	awk 'NR == FNR { want[$0] = 1; next }
	/^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); next }
	/\tlock or[lq] +\$0x0,/ { next }
	name in want && (/\tlock / || /\txchg .*\(/) { print name ":" $0 }' - "$out/disassembly"
}
fences() { in_bodies "$1" ring/order.h full_fence; }

# How often instructions of a kind ran: lines "FUNCTION N", of counts by address.
collect_addresses() { instr=yes positions=no collect "$@"; }
ran_locked() { # FILE
	awk '
	NR == FNR && /^[0-9a-f]+ <.*>:$/ { name = $2; gsub(/[<>:]/, "", name); next }
	NR == FNR && /\tlock or[lq] +\$0x0,/ { next }
	NR == FNR && (/\tlock / || /\txchg .*\(/) { at = $1; sub(":", "", at); owner["0x" at] = name; next }
	NR == FNR { next }
	/^calls=/ { inclusive = 1; next }
	/^0x/ {
		if (inclusive) inclusive = 0
		else if ($1 in owner) ran[owner[$1]] += $3
	}
	END { for (name in ran) print name, ran[name] }' "$out/disassembly" "$1"
}

heap='^(malloc|calloc|realloc|free|cfree|memalign|aligned_alloc|posix_memalign|reallocarray|_int_malloc|_int_free|sysmalloc|brk|sbrk|mmap|munmap|mremap)$'

row() { # WHAT VECTOR BATCH VALUE BUDGET ("-": none, for information)
	local verdict=ok
	if [ "$5" = - ]; then
		verdict=
	elif awk -v v="$4" -v b="$5" 'BEGIN { exit !(v > b) }'; then
		verdict=OVER
		failed=1
	fi
	printf '%-28s %-8s %5s %10s %8s  %s\n' "$1" "$2" "$3" "$4" "$5" "$verdict"
}

count_row() { # WHAT FUNCTION VECTOR BATCH BUDGET
	collect "$2" "$3" "$4"
	row "$1" "$3" "$4" "$(per_request "$(instructions "$2" "$3" "$4")" "$4")" "$5"
}

# A counter that sees nothing proves nothing: it must see the control's sins.
control() {
	collect_addresses cost_control control 1
	[ "$(ran_locked "$out/cost_control.control.1")" = "cost_control $rounds" ] ||
		{ echo "cost: the count of locked instructions that ran is wrong"; exit 1; }
	collect cost_control control 1
	local file=$out/cost_control.control.1
	[ "$(syscalls cost_control control 1)" = $rounds ] &&
		seen "$file" | grep -qE "$heap" && [ -n "$(seen "$file" | locked)" ] &&
		[ "$(fences "$file")" -ge $rounds ] ||
		{ echo "cost: the counters miss a syscall, malloc, locked add or fence"; exit 1; }
}

# By hand in plain memory, and by libmlx5 on a software device: instructions a batch.
wqe_count() { # dv|verbs FUNCTION BATCH
	local driver=$wqe_cost rounds=$rounds sim=
	[ "$1" = dv ] || { sim=$B/tent-sim; rounds=32; }
	collect "$2" "$1" "$3"
	awk -v n="$(instructions "$2" "$1" "$3")" -v d=$rounds 'BEGIN { printf "%.1f", n / d }'
}

share() { awk -v n="$1" -v d="$2" 'BEGIN { printf "%.1f", n / d }'; }

wqe_rows() {
	local batch
	for batch in 1 32; do
		row WQE dv $batch "$(share "$(wqe_count dv dv_post $batch)" $batch)" \
			$([ $batch = 32 ] && echo 55 || echo -)
		row "  by libmlx5" verbs $batch \
			"$(share "$(wqe_count verbs verbs_post $batch)" $batch)" -
	done
	printf '%-28s %-8s %5s %10s %8s\n' "# per batch" vector batch count budget
	for batch in 1 32; do
		row "poll, one CQE, its requests" dv $batch "$(wqe_count dv dv_reap $batch)" \
			$((60 + 12 * batch))
		row "  by libmlx5" verbs $batch "$(wqe_count verbs verbs_reap $batch)" -
	done
}

# From slot to completion by RDMA, on a software device. While the card is waited for time
# passes: what sched_tick() does by the clock is of nobody's request, and system calls are
# counted wherever they are, so clean_row() does not look at these files.
rdma_count() { # VECTOR BATCH
	local driver=$rdma_cost rounds=64 sim=$B/tent-sim but=sched_tick
	collect poller_turn "$1" "$2"
	mv "$out/poller_turn.$1.$2" "$out/turn.$1.$2"
	per_request "$(instructions turn "$1" "$2")" "$2"
}

rdma_rows() {
	echo "# by RDMA, WQEs and CQEs too; budgets are what was reached, goals are 300, 350, 600 and" \
		"600: a request is a job of its line until its pieces are back, one alone is of two" \
		"turns, and with a hint or deadline its policy is looked for"
	printf '%-28s %-8s %5s %10s %8s\n' "# per request" vector batch count budget
	rdma_row rdma 32 530
	rdma_row rdma4 32 545
	rdma_row rdmafull 32 975
	rdma_row rdma 1 1580
	rdma_row rdmainline 32 755
}

rdma_row() { # VECTOR BATCH BUDGET
	row "slot to completion" "$1" "$2" "$(rdma_count "$1" "$2")" "$3"
}

# Nothing of this may be on the path: of every function collected so far.
clean_row() {
	local files="$out/tent_ring_submit.* $out/poller_turn.* $out/tent_ring_poll.* $out/dv_*"
	local calls=0 ran=0 file all
	files=$(ls $files | grep -v '\.said$')
	for file in $files; do
		calls=$((calls + $(syscalls_in "$file")))
		ran=$((ran + $(fences "$file")))
	done
	all=$(for file in $files; do seen "$file"; done | sort -u)
	echo "$all" > "$out/functions"
	row "syscalls" all - "$calls" 0
	row "heap calls" all - "$(echo "$all" | grep -cE "$heap" || true)" 0
	row "locked instructions" all - "$(echo "$all" | locked | tee "$out/locked" | wc -l)" 0
	row "fences run" all - "$ran" 0
	cat "$out/locked"
	echo "# functions_seen $(echo "$all" | wc -l): $(echo $all)"
}

# Locked instructions that ran per call of FUNCTION, but for those of a turn of caller
# mode. Where the control thread was just driving, a turn yields to it: counted again.
drive='^(engine_drive|lib_drive|lib_unlock) '
api_row() { # FUNCTION VECTOR
	local file=$out/$1.$2.32 calls attempt
	for attempt in 1 2 3 4 5; do
		collect_addresses "$1" "$2" 32
		[ "$(syscalls "$1" "$2" 32)" != 0 ] || break
	done
	calls=$(sed -n "s/^calls $1 //p" "$file.said")
	row "$1" "$2" 32 "$(ran_locked "$file" | grep -vE "$drive" |
		awk -v n="$calls" '{ sum += $2 } END { printf "%.2f", sum / n }')" 1
}

# Caller mode's own: whoever drives takes a lock. The poller's turn in it has none.
drive_row() {
	local file=$out/engine_drive.one.32 calls
	collect_addresses engine_drive one 32
	calls=$(sed -n 's/^calls engine_drive //p' "$file.said")
	row "caller mode's lock, a turn" one 32 "$(ran_locked "$file" |
		awk -v n="$calls" '{ sum += $2 } END { printf "%.2f", sum / n }')" 1
}

# A batch of calls of FUNCTION, slot to completion in it, per request. Counted again where the
# turn yielded, as in api_row().
submit_count() { # FUNCTION VECTOR
	local attempt
	for attempt in 1 2 3 4 5; do
		collect "$1" "$2" 32
		[ "$(syscalls "$1" "$2" 32)" != 0 ] || break
	done
	per_request "$(instructions "$1" "$2" 32)" 32
}

# What names no intent, policy, deadline or hint costs no more by v1 than it always did.
submit_rows() {
	local older
	older=$(submit_count tent_submit legacy)
	row "tent_submit, to completion" legacy 32 "$older" -
	row "tent_submit_v1, the same" api 32 "$(submit_count tent_submit_requests api)" \
		"$(awk -v n="$older" 'BEGIN { printf "%.1f", 1.05 * n }')"
}

api_clean_rows() {
	local files calls
	files=$(ls "$out"/tent_*.api.32 "$out"/tent_*.pending.32)
	calls=$(syscalls_in $files)
	row "syscalls" "C API" - "$calls" 0
	row "heap calls" "C API" - "$(for file in $files; do seen "$file"; done | sort -u |
		grep -cE "$heap" || true)" 0
}

rm -f "$out"/*

if [ "${1:-}" = brief ]; then
	collect tent_ring_submit one 32
	collect poller_turn one 32
	echo "# instructions_per_request producer $(per_request "$(instructions tent_ring_submit one 32)" 32)" \
		"engine $(per_request "$(instructions poller_turn one 32)" 32)"
	echo "# syscalls_per_request $(per_request "$(syscalls poller_turn one 32)" 32)"
	exit 0
fi

objdump -d --no-show-raw-insn "$driver" "$wqe_cost" "$rdma_cost" > "$out/disassembly"
control
"$driver" one 32 > "$out/plain"
echo "# cost  counted by $(valgrind --version) on $(${CC:-gcc} -dumpmachine), $rounds rounds a count"
echo "# vector 2 clients, 64 regions each, 64-byte requests that cannot merge; one: one" \
	"intent, four: four intents, full: priority, deadline and hint too, far: regions that" \
	"the engine's hints do not tell apart; metered: one, as tentd counts it for its metrics" \
	"(it depends on how long things take); policy, policy4: one and four under two policies" \
	"and a contract; api: libtent's calls, legacy: the older submit, pending: on a batch that" \
	"has not ended; dv: RDMA" \
	"WRITEs by hand-built WQEs, verbs: by ibv_post_send and ibv_poll_cq; rdma, rdma4, rdmafull:" \
	"WRITEs of 256 bytes to another engine, as one, four and full under two policies and a" \
	"contract; rdmainline: of 64, inside their WQEs"
echo "# refused $(sed -n 's/^refused //p' "$out/plain") bad requests, one per rule, in the counted program"
printf '%-28s %-8s %5s %10s %8s\n' "# per request" vector batch count budget

count_row producer tent_ring_submit one 32 60
count_row producer tent_ring_submit one 1 200
set -- $(sed -n 's/^lines //p' "$out/plain")
row "producer lines" one 32 "$1" 2
row "engine lines" one 32 "$2" 1.1
count_row "slot to completion" poller_turn one 32 235
one=$(per_request "$(instructions poller_turn one 32)" 32)
count_row "slot to completion" poller_turn four 32 260
count_row "slot to completion" poller_turn policy 32 235
count_row "slot to completion" poller_turn policy4 32 260
count_row "slot to completion" poller_turn full 32 "$(awk -v n="$one" 'BEGIN { print 2 * n }')"
count_row "slot to completion" poller_turn far 32 -
count_row "slot to completion" poller_turn metered 32 -
count_row "slot to completion" poller_turn one 1 600
count_row "intake and validation" intake_batch one 32 130
# What that is made of; the rest is the test of layout and fields, and the record.
rest=$(instructions intake_batch one 32)
part() { # WHAT SOURCE FUNCTION...
	local what=$1 count
	shift
	count=$(in_bodies "$out/intake_batch.one.32" "$@")
	rest=$((rest - count))
	row "  $what" one 32 "$(per_request "$count" 32)" -
}
part "copying slots" ring/copy_in.h tent_copy_in
part "region lookup, both ends" engine/region_hints.h hint_of hint_holds
row "  layout, fields, record" one 32 "$(per_request $rest 32)" -
count_row "reap" tent_ring_poll one 32 60
submit_rows
wqe_rows
rdma_rows
clean_row
echo "# in caller mode each turn also takes the drive's lock, and the C API's turn one more;" \
	"the C API's rows are without them"
printf '%-28s %-8s %5s %10s %8s\n' "# locked, per call" vector batch count budget
drive_row
api_row tent_submit_requests api
for call in tent_overall_status tent_task_status; do
	api_row $call api
	api_row $call pending
done
api_clean_rows
exit $failed
