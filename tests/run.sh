#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs test programs one after the other and stops at the first that fails. A
# program that passes shows cmocka's closing lines; one that fails shows all.
# TENT_BUILD tells tests where the programs they start lie.
set -u
export TENT_BUILD=$(realpath "$B")
ran=0

for program; do
	log=$program.log
	echo "== ${program#"$B"/}"
	start=$SECONDS
	if ! "$program" > "$log" 2>&1; then
		cat "$log"
		echo "FAILED: $program (rerun it alone; its output is in $log)"
		exit 1
	fi
.* run\.\|\[  PASSED  \]\|\[  SKIPPED \]/p' "$log"
	echo "   $((SECONDS - start)) s"
	ran=$((ran + 1))
done
echo "== $ran test programs passed"
