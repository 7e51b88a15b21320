#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make demo` shows, at a size for every run: the trace is replayed and verified
# in each mode and with each option, a wrong option is refused by name, and the
# scenes end as promised.
set -euo pipefail
B=${B:-build}
work=$(mktemp -d /tmp/tent-test-replay-XXXXXX)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
replay="$B/perf/replay --requests 60 --speed 50 --pool 256M --staging 64M"

whole() { # FILE: every batch of a replay ended well
	awk '$1 == "foreground_get" || $1 == "background_prefetch" || $1 ~ /^checkpoint/ {
		rows++; if ($2 == 0 || $NF != 0) bad = 1 }
	     $2 == "wrong_blocks" { facts++; if ($3 != 0) bad = 1 }
	     END { exit !(rows >= 2 && facts == 1 && !bad) }' "$1" || { cat "$1"; exit 1; }
}

ran=0
for options in "--mode daemon" "--mode thread --idle busy" "--mode caller --seed 9" \
	       "--mode daemon --checkpoint-flood --flood 8M --spread" \
	       "--mode thread --checkpoint-flood --flood 8M --no-priorities" \
	       "--mode caller --block 4K --pool 2M"; do
	$replay $options > "$work/out" || { cat "$work/out"; exit 1; }
	whole "$work/out"
	ran=$((ran + 1))
done

$replay --json > "$work/json"
python=$(command -v python3 || true)
[ -z "$python" ] || "$python" -c 'import json, sys; json.load(open(sys.argv[1]))' "$work/json"

if $replay --block 5K 2> "$work/error" > /dev/null; then
	echo "a block size of 5K was taken"
	exit 1
fi
grep -q -- '--block' "$work/error"

for scene in refused downgraded syscalls killed; do
	"$B/perf/show" $scene > "$work/out" || { cat "$work/out"; exit 1; }
	ran=$((ran + 1))
done
[ -z "$(ls "$work" | grep -v -e out -e json -e error)" ] || { ls "$work"; exit 1; }
echo "replay: $ran runs, every byte verified, nothing left behind"
