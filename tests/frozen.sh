#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The ABI: programs of the first published headers, which lie in tests/compat/frozen and
# do not change, run on the library of today; and it still has every name that was there.
set -eu
. tests/tentd.sh
frozen=tests/compat/frozen
flags="-pedantic -Wall -Wextra -Werror -O2 -I$frozen"
export LD_LIBRARY_PATH=$B LC_ALL=C

missing=$(nm -D --defined-only --with-symbol-versions "$B/libtent.so.1" |
	awk '$2 == "T" { print $3 }' | sort | comm -23 $frozen/libtent.symbols -)
[ -z "$missing" ] || { echo "frozen: libtent.so.1 has lost" $missing; exit 1; }

gcc -std=c99 $flags -o "$work/c99" tests/compat/frozen_client.c -L"$B" -ltent
gcc -std=c11 $flags -o "$work/c11" tests/compat/frozen_client.c -L"$B" -ltent
g++ -std=c++11 -x c++ $flags -o "$work/cxx11" tests/compat/frozen_client.c -x none -L"$B" -ltent
gcc -std=c99 $flags -o "$work/legacy" tests/compat/legacy_client.c -L"$B" -ltent_shared

for program in c99 c11 cxx11; do
	"$work/$program" strict
done
"$work/legacy"
start_tentd '{"engine": {"validation": "compat"}}'
TENT_ENGINE=unix:$socket "$work/c99" compat
TENT_ENGINE=unix:$socket "$work/legacy"

# A library from before v1: the program sees that, and does not fail to start.
mkdir "$work/older"
awk -F@ '!/submit_requests|schema_info/ { print "int " $1 "(void) { return -1; }" }' \
	$frozen/libtent.symbols |
	gcc -shared -fPIC -Wl,-soname,libtent.so.1 -o "$work/older/libtent.so.1" -x c -
rc=0
LD_LIBRARY_PATH=$work/older "$work/c99" strict || rc=$?
[ $rc = 3 ] || { echo "frozen: without v1 the program ends with $rc, not 3"; exit 1; }

echo "frozen: $(wc -l < $frozen/libtent.symbols) names are there; old programs run"
