#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Lengths of functions and files. Hard stops: a function 80 lines, a .c file 600,
# a header 400. The public headers are contracts, mostly comment: they may be longer.
# Of tests and of the simulator only files are measured. Lines of the product have at
# most 100 columns; a table of the public headers is wider.
set -u
files=$(find ring engine dv gpu io lib tools perf uapi -name '*.[ch]' | sort)

ctags -x --c-kinds=f --fields=+ne -f - --output-format=json $files |
	sed -n 's/.*"name": "\([^"]*\)", "path": "\([^"]*\)".*"line": \([0-9]*\).*"end": \([0-9]*\).*/\1 \2 \3 \4/p' |
	awk '{ print $4 - $3 + 1, $1, $2 }' | sort -n > "${B:-build}/size.functions"
awk '
{ line[NR] = $1; if ($1 > 80) { print "size: " $2 " in " $3 " has " $1 " lines, 80 allowed"; bad = 1 } }
END {
	if (NR == 0) { print "size: ctags found no function"; exit 1 }
	printf "functions %d  median %d  p90 %d  max %d lines (aim: 15, 45, 80)\n",
		NR, line[int((NR + 1) / 2)], line[int(NR * 0.9)], line[NR]
	exit bad
}' "${B:-build}/size.functions"
failed=$?

for file in $files $(find tests sim -path tests/compat/frozen -prune -o -name '*.[ch]' -print -o -name '*.cpp' -print | sort) uapi/tent/*.hpp; do
	lines=$(wc -l < "$file")
	case $file in
	uapi/*) limit=600 ;;
	*.h) limit=400 ;;
	*) limit=600 ;;
	esac
	[ "$lines" -le $limit ] || { echo "size: $file has $lines lines, $limit allowed"; failed=1; }
done
for file in $(echo "$files" | grep -v ^uapi/); do
	expand "$file" | awk -v file="$file" 'length($0) > 100 {
		print "size: line " NR " of " file " has " length($0) " columns, 100 allowed"
		bad = 1 } END { exit bad }' || failed=1
done
wc -l $files | sort -n | tail -6 | head -5 | sed 's/^/longest: /'
exit $failed
