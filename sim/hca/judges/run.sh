#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make check-hca: every judge in turn, their words in build/hca.log; the first that is not
# content ends it.
set -u
here=$(dirname "$0")
TENT_BUILD=$(realpath "$B")
export TENT_BUILD
[ "$(id -u)" = 0 ] || { echo "check-hca: network namespaces take root"; exit 1; }
: > "$TENT_BUILD/hca.log"

all="tool ibverbs perftest rdmacm ucx fabric lossy capture pyverbs life ratios soak"
for judge in ${TENT_JUDGES:-$all}; do
	echo "== $judge"
	start=$SECONDS
	"$here/$judge.sh" > "$TENT_BUILD/$judge.log" 2>&1
	rc=$?
	cat "$TENT_BUILD/$judge.log" >> "$TENT_BUILD/hca.log"
	[ $rc = 0 ] || { tail -n 80 "$TENT_BUILD/$judge.log"; exit 1; }
	grep '^ok ' "$TENT_BUILD/$judge.log"
	tail -n 1 "$TENT_BUILD/$judge.log"
	echo "   $((SECONDS - start)) s"
done
