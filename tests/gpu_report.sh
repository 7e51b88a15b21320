#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu_report on the stand-in for the CUDA driver: all its rows are there and none has
# failed; and where there is no driver it says so.
set -euo pipefail
B=${B:-build}
work=$(mktemp -d /tmp/tent-test-gpu-XXXXXX)
trap 'rm -rf "$work"' EXIT

LD_LIBRARY_PATH=$B/sim/cuda "$B/perf/gpu_report" --json --size 1M --runs 1 > "$work/out.json"
python3 - "$work/out.json" <<- 'END'
	import json, sys

	tables = json.load(open(sys.argv[1]))["tables"]
	memory, moved = tables["memory"], tables["moved"]
	kinds = {(row["what"], row["gpu"]) for row in memory}
	ways = {(row["from"], row["to"]) for row in moved}
	places = ["host", "cuda:0", "cuda:1"]
	assert len(kinds) == len(memory) == 16, kinds
	assert ways == {(a, b) for a in places for b in places} - {("host", "host")}, ways
	assert all(row["as_expected"] == "yes" for row in memory), memory
	assert all(row["verified"] == "yes" and row["share"] > 0 for row in moved), moved
END

# The driver of a machine that has one is not for this test.
mkdir "$work/none"
echo 'no library' > "$work/none/libcuda.so.1"
rc=0
LD_LIBRARY_PATH=$work/none "$B/perf/gpu_report" > "$work/out" 2> "$work/error" || rc=$?
[ "$rc" = 2 ] || { echo "without a driver it ended with $rc"; exit 1; }
grep -q '^gpu_report: .*libcuda.so.1: ' "$work/error" || { cat "$work/error"; exit 1; }
echo "gpu_report: 24 rows passed"
