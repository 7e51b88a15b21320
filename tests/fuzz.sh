#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs libFuzzer programs, each for TENT_FUZZ_SECONDS (60), keeping what they found
# under $B/fuzz/corpus. Stops at the first crash.
set -eu
seconds=${TENT_FUZZ_SECONDS:-60}
[ $# -gt 0 ] || { echo "fuzz: there is no target"; exit 1; }

# Words that a random text would take ages to guess.
mkdir -p "$B/fuzz"
grep -ohE '"[A-Za-z_/]{2,}"' engine/config*.c | sort -u > "$B/fuzz/words"

for program; do
	name=$(basename "$program")
	corpus=$B/fuzz/corpus/$name
	mkdir -p "$corpus"
	echo "== $name, $seconds s"
	"$program" -max_total_time="$seconds" -timeout=30 -print_final_stats=1 -verbosity=0 \
		-dict="$B/fuzz/words" -artifact_prefix="$corpus.crash-" "$corpus" 2>&1 | tail -12
	[ "${PIPESTATUS[0]}" = 0 ] || { echo "FAILED: $name, see $corpus.crash-*"; exit 1; }
done
echo "== $# fuzz targets, no crash"
