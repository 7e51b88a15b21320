#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs libFuzzer programs, each for TENT_FUZZ_SECONDS (60), keeping what they found
# under $B/fuzz/corpus. Stops at the first crash.
set -eu
seconds=${TENT_FUZZ_SECONDS:-60}
[ $# -gt 0 ] || { echo "fuzz: there is no target"; exit 1; }

for program; do
	name=$(basename "$program")
	corpus=$B/fuzz/corpus/$name
	mkdir -p "$corpus"
	echo "== $name, $seconds s"
	"$program" -max_total_time="$seconds" -timeout=30 -print_final_stats=1 -verbosity=0 \
		-artifact_prefix="$corpus.crash-" "$corpus" 2>&1 | tail -12
	[ "${PIPESTATUS[0]}" = 0 ] || { echo "FAILED: $name, see $corpus.crash-*"; exit 1; }
done
echo "== $# fuzz targets, no crash"
