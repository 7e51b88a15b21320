#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# `make demo` succeeds, shows all of it, draws its pictures, and leaves neither a file
# outside build/ nor a process. How long it took is said, not judged.
set -euo pipefail
cd "$(dirname "$0")/.."
B=${B:-build}
work=$(mktemp -d /tmp/tent-XXXXXX)	# short: paths of sockets are
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work/t
mkdir "$TMPDIR"

others() { find /tmp -maxdepth 1 -name 'tent-demo-*' -o -maxdepth 1 -name 'tent-perf-*' | sort; }

refuse() {
	cat "$work/out"
	echo "demo: $1"
	exit 1
}

others > "$work/before"
start=$SECONDS
make demo > "$work/out" 2>&1 || refuse "it failed"
seconds=$((SECONDS - start))

for transport in shm tcp rdma; do
	grep -Eq "^  $transport .* [1-9][0-9.]* +[1-9][0-9]* " "$work/out" ||
		refuse "no bytes were verified by $transport"
done
! grep -q '^NOT SHOWN' "$work/out" || refuse "not all of it was shown"
[ "$(grep -c '^[1-7]\. ' "$work/out")" = 7 ] || refuse "there are not seven parts"
for picture in replay transports flood; do
	[ -s "$B/demo/$picture.png" ] && [ -s "$B/demo/$picture.svg" ] ||
		refuse "$B/demo has no $picture picture"
done
[ -z "$(ls "$TMPDIR")" ] || refuse "left in TMPDIR: $(ls "$TMPDIR")"
left=$(others | comm -13 "$work/before" -)
[ -z "$left" ] || refuse "left in /tmp: $left"
# Whatever it started has its TMPDIR, which we alone gave out, in its environment.
left=$(grep -la "TMPDIR=$TMPDIR" /proc/[0-9]*/environ 2> /dev/null | grep -v "/$$/" || true)
for environ in $left; do
	pid=${environ#/proc/}
	pid=${pid%/environ}
	name=$(cat "/proc/$pid/comm" 2> /dev/null || true)
	case $name in
	'' | demo.sh | grep) ;;
	*) refuse "process $pid, $name, still runs" ;;
	esac
done
echo "demo: all seven parts shown in $seconds s; no file or process is left"
