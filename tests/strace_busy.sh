#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A BUSY client of a busy tentd makes no syscall while it transfers: none between its
# two getppid() marks.
set -eu
. tests/tentd.sh

start_tentd '{"engine": {"idle": "busy"}}'
${CC:-gcc} -std=gnu11 -O2 -Iuapi -o "$work/client" tests/compat/ring_client.c \
	"$B/libtentring.a" -pthread
strace -f -o "$work/trace" "$work/client" "$socket" 200 marked > "$work/out"

# The marks must be there, or an empty stretch between them proves nothing.
[ "$(grep -c 'getppid()' "$work/trace")" = 2 ] || { cat "$work/trace"; exit 1; }
between=$(sed '1,/getppid()/d; /getppid()/,$d' "$work/trace")
if [ -n "$between" ]; then
	echo "syscalls of a BUSY client while it transfers:"
	echo "$between" | head -20
	exit 1
fi
echo "strace_busy: 0 syscalls between the marks; $(cat "$work/out")"
