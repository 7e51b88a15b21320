#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each public header compiles alone in every language and ABI its users have, with
# every layout where test_abi.c says; each internal one alone as we compile it; and
# tent.h brings in no unprefixed name.
set -u
CC=${CC:-gcc}
strict="-Wall -Wextra -Werror -pedantic -fsyntax-only -Iuapi"
m32="-isystem /usr/include/x86_64-linux-gnu"
count=0
failed=0

try() { # header, then the compiler's command line
	local header=$1
	shift
	count=$((count + 1))
	echo "#include $header" | "$@" - || { echo "headers: $header fails with: $*"; failed=1; }
}

for file in uapi/tent/*.h; do
	header="<${file#uapi/}>"
	for std in c99 c11 c17; do
		try "$header" $CC -x c -std=$std $strict
		try "$header" $CC -m32 $m32 -x c -std=$std $strict
	done
	for std in c++11 c++17 c++20; do
		try "$header" g++ -x c++ -std=$std $strict
		try "$header" clang++ -x c++ -std=$std $strict
	done
	try "$header" g++ -m32 $m32 -x c++ -std=c++11 $strict
	try "$header" aarch64-linux-gnu-gcc -x c -std=c99 $strict
done
for file in uapi/tent/*.hpp; do
	for std in c++17 c++20; do
		for compiler in g++ clang++; do
			try "<${file#uapi/}>" $compiler -x c++ -std=$std $strict -Wshadow
			try "<${file#uapi/}>" $compiler -x c++ -std=$std $strict -fno-exceptions -fno-rtti
		done
	done
done
# The layouts, field by field: as the test itself is compiled, and for its other users.
for abi in "$CC -x c -std=gnu11" "$CC -m32 $m32 -x c -std=gnu11" "g++ -x c++ -std=c++11" \
	"clang++ -x c++ -std=c++17" "g++ -m32 $m32 -x c++ -std=c++11"; do
	try '"tests/test_abi.c"' $abi -Wall -Wextra -Werror -fsyntax-only -I. -Iuapi
done
for file in {ring,engine,dv,gpu,io,lib,tools,perf}/*.h {perf,tests}/*/*.h tests/*.h; do
	[ -e "$file" ] && case $file in tests/compat/cmocka.h) ;; *)
		try "\"$file\"" $CC -x c -std=gnu11 -Wall -Wextra -Werror -fsyntax-only -I. -Iuapi ;;
	esac
done

# Names: macros by -dM, minus what its three C headers define; the rest by ctags.
headers='#include <stddef.h>
#include <stdint.h>'
macros() { $CC -std=c99 -Iuapi -x c -E -dM - | sed 's/^#define \([A-Za-z0-9_]*\).*/\1/' | sort; }
stray=$(comm -13 <(echo "$headers" | macros) <(printf '%s\n#include <tent/tent.h>\n' "$headers" | macros) |
	grep -v '^TENT_')
stray+=$(ctags -x --c-kinds=pfstgeuv uapi/tent/tent.h | awk '{ print $1 }' |
	grep -vE '^(tent_|TENT_|__anon)')
if [ -n "$stray" ]; then
	echo "headers: tent.h defines names without its prefix:" $stray
	failed=1
fi
[ $failed = 0 ] && echo "headers: $count compilations passed; tent.h keeps to its prefix"
exit $failed
