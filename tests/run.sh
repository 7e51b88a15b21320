#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs test programs and scripts one after the other and stops at the first that
# fails. Of one that passes it shows the closing lines, of one that fails all.
# TENT_BUILD tells tests where the programs they start lie. One that takes longer than
# TENT_TEST_SECONDS hangs, as a test of waits does when the property is broken.
set -u
TENT_BUILD=$(realpath "$B")
export TENT_BUILD
ran=0
limit=${TENT_TEST_SECONDS:-900}

for program; do
	log=$TENT_BUILD/$(basename "$program").log
	echo "== ${program#"$B"/}"
	start=$SECONDS
	timeout -k 10 "$limit" "$program" > "$log" 2>&1
	rc=$?
	if [ $rc != 0 ]; then
		cat "$log"
		[ $rc = 124 ] && echo "HANGS: $program, no end after $limit s"
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
