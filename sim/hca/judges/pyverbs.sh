#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rdma-core's own test suite, as python3-pyverbs and rdma-core install it, on the RoCE
# device. What passed, and what was skipped with its cause, is compared with
# pyverbs.expected: no failure, and no silent change. TENT_ACCEPT=1 rewrites that file.
. "$(dirname "$0")/common.sh"
expected=$(realpath "$(dirname "$0")")/pyverbs.expected
suite=$(dirname "$expected")/verbs_suite.py
hosts_up

unpack() { # FOLDER
	cp -r /usr/share/doc/rdma-core/tests $1/tests
	find $1/tests -name '*.gz' -exec gunzip {} +
}

if [ -n "${TENT_LIST:-}" ]; then
	folder=$(dirname "$TENT_LIST")
	unpack $folder
	for module in addr atomic cq cq_events cqex mr qp qpex rdmacm relaxed_ordering; do
		one $A /usr/bin/python3 $suite $folder /dev/null mlx5_0 tests.test_$module
	done
fi
listed
unpack $LOG
LIMIT_S=600

# has_huge_pages COUNT: as many as three tests want. Memory that is free may be in pieces.
pages=/proc/sys/vm/nr_hugepages
has_huge_pages() {
	local try
	for try in 1 2 3; do
		echo $1 > $pages
		[ "$(cat $pages)" -lt $1 ] || return 0
		echo 3 > /proc/sys/vm/drop_caches
		echo 1 > /proc/sys/vm/compact_memory
	done
	return 1
}

# They are the machine's: one such judge at a time, which gives them back.
exec {lock}< $pages
flock $lock
had=$(cat $pages)
trap 'echo $had > $pages; hosts_down' EXIT
has_huge_pages $((had + 8)) || judge_failed "the kernel finds $(cat $pages) huge pages, not $((had + 8))"
(on $A /usr/bin/python3 $suite $LOG $LOG/results mlx5_0) {lock}<&- > $LOG/output 2>&1
cat $LOG/output
[ -s $LOG/results ] || judge_failed "no test ran" $LOG/output
if [ -n "${TENT_ACCEPT:-}" ]; then cp $LOG/results "$expected"; fi
grep -E ' (FAIL|ERROR)$' $LOG/results && judge_failed "some tests failed" $LOG/output
diff -u "$expected" $LOG/results || judge_failed "the list changed" $LOG/results
echo "pyverbs: $(grep -c ' ok$' $LOG/results) passed, $(grep -c skipped $LOG/results) skipped with their cause, none failed"
