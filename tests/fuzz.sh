#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs libFuzzer programs, two at a time, each for TENT_FUZZ_SECONDS (60) from TENT_FUZZ_SEED
# (0: another each time), keeping what they found under $B/fuzz/corpus. Stops at the first
# crash.
set -eum	# with job control: see run.sh
limit="-max_total_time=${TENT_FUZZ_SECONDS:-60} -seed=${TENT_FUZZ_SEED:-0}"
[ $# -gt 0 ] || { echo "fuzz: there is no target"; exit 1; }

# Words that a random text would take ages to guess.
mkdir -p "$B/fuzz"
grep -ohE '"[A-Za-z_/]{2,}"' engine/config*.c engine/link*.c engine/far*.c engine/notices_link.c | sort -u > "$B/fuzz/words"

# A step of fuzz_link: its kind, its length, its bytes.
step() { # KIND BYTES
	printf "\\$1\\$(printf %o ${#2})%s" "$2"
}
ask='{"type":"describe","segment":"kv","uid":1000,"first":0}'
tell='{"type":"segment","segment":"kv","uid":1000,"life":"0x9","version":"0x1","first":0,'
tell=$tell'"total":1,"buffers":[["0x1000","0x40",2,"cpu:0"]]}'
news='{"type":"changed","segment":"kv","uid":1000}'
note='{"type":"notify","segment":"kv","uid":1000,"life":"0x1001","id":"0x1","name":"6e",'
note=$note'"message":"6d6d"}'
noted='{"type":"notified","id":"0x1","rule":0}'
none='{"type":"missing","segment":"kv","uid":1000,"rule":73,"reason":"no"}'

# What a random text would take ages to find: something valid to start from.
seed() { # NAME CORPUS
	case $1 in
	fuzz_config)
		cp tests/seeds/fuzz_config*.json "$2" ;;
	fuzz_ring)	# 3 blocks: control byte (all plausible), slot with length 64, cell
		for block in 1 2 3; do
			printf '\7'
			head -c 72 /dev/zero
			printf '\100'
			head -c 119 /dev/zero
		done > "$2/three_reads" ;;
	fuzz_slot)	# one entry, in which one field has a small number, and then a name's address
		for field in $(seq 0 15); do
			for mode in 0 1; do	# strict, compat
				printf '\'$mode'\1\1\'$(printf %o "$field")'\1\5' > "$2/number.$mode.$field"
				printf '\'$mode'\1\1\'$(printf %o "$field")'\7\10\7n' > "$2/name.$mode.$field"
			done
		done ;;
	fuzz_ctl)	# a hello and one of each message: all right, and with a descriptor
		for mode in 37 77; do
			for type in $(seq 2 13); do
				printf '\'$mode'\'$(printf %o "$type")'\0\0'
			done > "$2/each_message.$mode"
		done
		# each question
		for what in $(seq 1 8); do
			printf '\37\13\24\0'
			head -c 16 /dev/zero
			printf '\'$(printf %o "$what")'\0\0\0'
		done > "$2/each_query" ;;
	fuzz_reply)	# a good answer to each call
		for call in $(seq 0 7); do
			printf '\'$(printf %o "$call")'\17\0\0'
		done > "$2/each_call" ;;
	fuzz_frame)	# pieces of 6 bytes; a frame of 16 bytes, twice
		printf '\5' > "$2/two_frames"
		for frame in 1 2; do
			printf 'TENT\1\0\0\0\20\0\0\0{"type":"hello"}'
		done >> "$2/two_frames" ;;
	fuzz_link)	# a segment is described and changes, to and from either end
		{ printf '\0'; step 2 a; step 1 "$ask"; step 3 b; step 3 a; step 1 "$ask"
			step 1 "${ask%0\}}256}"; step 6 ''; } > "$2/we_are_asked"
		{ printf '\1'; step 4 kv; step 2 a; step 1 "$tell"; step 1 "$news"; step 1 "$tell"
			step 5 a; step 4 kv; step 1 "$none"; } > "$2/we_ask"
		# a notification arrives, is refused, and is none; one is sent and answered
		{ printf '\0'; step 2 a; step 1 "$note"; step 1 "${note/0x1001/0x1002}"; step 6 ''
			step 1 "$note"; step 1 "${note/6e/00}"; } > "$2/we_are_notified"
		{ printf '\1'; step 4 kv; step 2 a; step 1 "$tell"; step 7 "$(printf '\1')"
			step 7 "$(printf '\1text')"; step 1 "$noted"; step 1 "$noted"
			step 1 "${noted/0x1/0x3}"; } > "$2/we_notify"
		for flags in 2 3 4 5 6 7; do
			for seed in we_are_asked we_ask we_are_notified we_notify; do
				{ printf '\'$flags; tail -c +2 "$2/$seed"; } > "$2/$seed.$flags"
			done
		done ;;
	fuzz_hca_wqe)	# mode (all plausible), then one WQE of 1024 bytes for each opcode
		printf '\17' > "$2/each_opcode"
		for opcode in 00 01 10 11 12 13 20 21 22; do
			printf '\0\0\0\'$opcode'\0\0\0\3\0\0\0\10'
			head -c 22 /dev/zero
			printf '\4\0'
			head -c 28 /dev/zero
		done >> "$2/each_opcode" ;;
	fuzz_hca_packet) # a receive, and a work request of our own, with each operation
		for operation in 00 02 04 06 07 10 12 14 17 21 22 23 24; do
			printf '\'$operation'\0\0\0\0\37\2\10\10\0\15\1'
		done > "$2/each_operation" ;;
	esac
}

declare -A name=()	# by the pid of what runs now

start() { # PROGRAM
	local name_of corpus
	name_of=$(basename "$1")
	corpus=$B/fuzz/corpus/$name_of
	mkdir -p "$corpus"
	seed "$name_of" "$corpus"
	"$1" -len_control=0 -max_len=4000 $limit -timeout=30 -print_final_stats=1 -verbosity=0 \
		-dict="$B/fuzz/words" -artifact_prefix="$corpus.crash-" "$corpus" \
		> "$B/fuzz/$name_of.log" 2>&1 < /dev/null &
	name[$!]=$name_of
}

# Waits for the next end.
finish() {
	local pid rc=0 ended
	wait -n -p pid "${!name[@]}" || rc=$?
	ended=${name[$pid]}
	unset "name[$pid]"
	echo "== $ended $limit"
	tail -n 12 "$B/fuzz/$ended.log"
	[ $rc = 0 ] || { echo "FAILED: $ended, see $B/fuzz/corpus/$ended.crash-*"; exit 1; }
}

trap '[ ${#name[@]} = 0 ] || kill "${!name[@]}"' EXIT
trap 'exit 130' INT TERM
for program; do
	[ ${#name[@]} -lt 2 ] || finish
	start "$program"
done
while [ ${#name[@]} -gt 0 ]; do finish; done
echo "== $# fuzz targets, no crash"
