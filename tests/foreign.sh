#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Other CPUs and word sizes under qemu-user: the ring tests as aarch64 and i386, all
# sources compiled for aarch64, and an i386 client of a 64-bit tentd.
set -eu
. tests/tentd.sh
unset MAKEFLAGS MFLAGS MAKELEVEL
m32="gcc -m32 -isystem /usr/include/x86_64-linux-gnu"

# What qemu-user itself cannot do: it has no preadv2(RWF_NOWAIT), loses descriptors
# that do not fit a control buffer, and does not tell huge pages from others.
export TENT_COMPAT_SKIP="draining_an_emptied_blocking_eventfd_returns
a_wrong_number_of_descriptors_is_refused_and_closed with_huge_pages_reserved_they_are_used"
TENT_COMPAT_SKIP=$(echo $TENT_COMPAT_SKIP)

run_ring_tests() { # CPU QEMU
	for test in "$B/$1"/foreign/test_*; do
		case $1/$(basename "$test") in
		*.*) continue ;;
		# Holes in a client's memory are for engines to survive, and those are
		# 64-bit programs; qemu-i386 does not return from the handler.
		i386/test_ring_sigbus) continue ;;
		esac
		"$2" "$test" > "$test.log" 2>&1 || { cat "$test.log"; echo "FAILED: $2 $test"; exit 1; }
		echo "$1 $(basename "$test"): $(grep -c '^\[       OK' "$test.log") passed," \
			"$(grep -c '^\[  SKIPPED' "$test.log") skipped"
	done
}

make -s -j2 CROSS=aarch64-linux-gnu- B="$B/aarch64" foreign > /dev/null
run_ring_tests aarch64 qemu-aarch64-static
make -s -j2 CC="$m32" B="$B/i386" foreign > /dev/null
run_ring_tests i386 qemu-i386-static

# The headers of jansson, liburing and verbs are the same for every CPU, their libraries
# are not: objects only.
mkdir -p "$B/aarch64/include"
find /usr/include -name 'jansson*.h' -exec cp {} "$B/aarch64/include" \;
cp -r /usr/include/liburing /usr/include/liburing.h /usr/include/infiniband "$B/aarch64/include"
make -s -j2 CROSS=aarch64-linux-gnu- B="$B/aarch64" \
	CFLAGS="-O2 -g -isystem $B/aarch64/include" foreign-objects > /dev/null

start_tentd '{}'
$m32 -std=c99 -pedantic -Wall -Wextra -Werror -O2 -static -Iuapi -o "$B/i386/ring_client" \
	tests/compat/ring_client.c "$B/i386/libtentring.a" -pthread
qemu-i386-static "$B/i386/ring_client" "$socket" 20
echo "foreign: aarch64 and i386 hold"
