#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The README shows two programs. They are the ones the tests build and run: each
# code block after an "example:" mark must be that file from its first #include.
set -eu
cd "$(dirname "$0")/.."
bad=0
for file in $(sed -n 's/^<!-- example: \(.*\) -->$/\1/p' README.md); do
	shown=$(sed -n "\|^<!-- example: $file -->|,/^\`\`\`\$/p" README.md | sed '1,2d;$d')
	real=$(sed -n '/^#include/,$p' "$file")
	if [ "$shown" != "$real" ]; then
		echo "README.md: the block for $file differs from the file" >&2
		diff <(echo "$shown") <(echo "$real") >&2 || true
		bad=1
	fi
done
exit $bad
