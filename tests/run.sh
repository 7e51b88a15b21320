#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs test programs and scripts one after the other and stops at the first that
# fails. Of one that passes it shows the closing lines, of one that fails all.
# TENT_BUILD tells tests where the programs they start lie.
set -u
TENT_BUILD=$(realpath "$B")
export TENT_BUILD
ran=0

for program; do
	log=$TENT_BUILD/$(basename "$program").log
	echo "== ${program#"$B"/}"
	start=$SECONDS
	"$program" > "$log" 2>&1
	rc=$?
	if [ $rc != 0 ]; then
		cat "$log"
		echo "FAILED: $program, exit status $rc ($ran passed before it; log: $log)"
		exit 1
	fi
	case $program in
	*.sh) tail -n 1 "$log" ;;
	*) grep -E 'test\(s\) run\.|\[  (PASSED|SKIPPED) +\]' "$log" ;;
	esac
	echo "   $((SECONDS - start)) s"
	ran=$((ran + 1))
done
echo "== $ran programs passed"
