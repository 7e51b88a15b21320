#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make demo` shows, at a size for every run: the trace is replayed and verified
# in each mode and with each option, a wrong option is refused by name, and the
# scenes end as promised.
set -euo pipefail
B=${B:-build}
work=$(mktemp -d /tmp/tent-test-replay-XXXXXX)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
replay="$B/perf/replay --requests 60 --pool 256M --staging 64M"

# run OPTION..: the replay is an open loop, so on a machine with other work the blocks may
# all still be on their way when they are asked for. Such a run says so, and is repeated
# slower; whatever else is wrong is wrong.
run() {
	local speed
	for speed in 50 10 2; do
		if env PATH="${path:-$PATH}" $replay --speed $speed "$@" > "$work/out"; then
			return 0
		fi
		grep -q 'no block was read' "$work/out" || break
	done
	cat "$work/out"
	return 1
}

whole() { # FILE: every batch of a replay ended well, and every byte read was the right one
	awk '$1 == "foreground_get" || $1 == "background_prefetch" || $1 ~ /^checkpoint/ {
		rows++; if ($2 == 0 || $NF != 0) bad = 1 }
	     $2 == "wrong_blocks" { facts++; if ($3 != 0) bad = 1 }
	     $2 == "read_bytes" { facts++; read = $3 }
	     $2 == "verified_bytes" { facts++; verified = $3 }
	     END { exit !(rows >= 2 && facts == 3 && read > 0 && read == verified && !bad) }' "$1" || { cat "$1"; exit 1; }
}

by_rdma() { # FILE: a WRITE and a READ for each block of it, as the server's engine says
	awk '$1 == "foreground_get" || $1 == "background_prefetch" { reads += $3 }
	     $1 == "checkpoint" { writes += $3 }
	     $2 == "block_KiB" { bytes = $3 * 1024 }
	     $2 == "server_engine" { said = substr($0, index($0, "GID")) }
	     END { want = writes " WRITEs and " reads " READs of " (writes + reads) * bytes " bytes"
		   exit !(writes > 0 && reads > 0 && index(said, want)) }' "$1" || { cat "$1"; exit 1; }
}

ran=0
for options in "--mode daemon" "--mode thread --idle busy" "--mode caller --seed 9" \
	       "--mode daemon --checkpoint-flood --flood 8M --spread" \
	       "--mode thread --checkpoint-flood --flood 8M --no-priorities" \
	       "--mode caller --block 4K --pool 2M" \
	       "--transport tcp" "--transport tcp --checkpoint-flood --flood 8M --spread" \
	       "--transport rdma" "--transport rdma --block 16K --spread --idle busy"; do
	run $options
	whole "$work/out"
	[ "${options#--transport rdma}" = "$options" ] || by_rdma "$work/out"
	ran=$((ran + 1))
done

# Other users do not reach the build folder where it lies in root's home: their programs are
# copies.
mkdir -p "$work"/copy/{perf,tools}
cp "$B/perf/replay" "$work/copy/perf"
cp "$B/tools/tentd" "$work/copy/tools"
cp "$B/tent-sim" "$B/libtent-hca.so" "$work/copy"
theirs=${replay/#$B/$work/copy}

# Who may not have hosts of its own is told so, and has two engines at the loopback address.
chmod 711 "$work"
mkdir -m 777 "$work/nobody"
TMPDIR=$work/nobody setpriv --reuid 65534 --clear-groups $theirs --transport tcp \
	> "$work/out" || { cat "$work/out"; exit 1; }
whole "$work/out"
grep -q '^# hosts .* at 127.0.0.1, with two engines: network namespaces: ' "$work/out" ||
	{ cat "$work/out"; exit 1; }
# And who may not lock so much memory: one card for both, within that limit.
nobody() { # OPTIONS...
	(ulimit -l 8192 && TMPDIR=$work/nobody exec setpriv --reuid 65534 --clear-groups \
		--bounding-set=-all --inh-caps=-all $theirs --transport rdma "$@") \
		> "$work/out" 2> "$work/error"
}
nobody --block 4K --pool 2M --staging 2M || { cat "$work/out" "$work/error"; exit 1; }
whole "$work/out"
rc=0
nobody || rc=$?
[ $rc = 77 ] && grep -q 'RLIMIT_MEMLOCK' "$work/error" || { cat "$work/error"; exit 1; }
rm -r "$work/copy"
rmdir "$work/nobody"
ran=$((ran + 3))

run --json
mv "$work/out" "$work/json"
python3 -c 'import json, sys
facts = json.load(open(sys.argv[1]))["facts"]
assert 0 < facts["read_bytes"] == facts["verified_bytes"], facts' "$work/json"

# A picture that was asked for is drawn, or the run fails; without gnuplot it is said.
picture() { # PATH: of a run that finds its programs there
	rm -rf "$work/drawn"
	path=$1 run --mode thread --out "$work/drawn"
}
if command -v gnuplot > /dev/null; then
	picture "$PATH"
	[ "$(head -c 4 "$work/drawn/replay.png" | tail -c 3)" = PNG ] &&
		[ "$(stat -c %s "$work/drawn/replay.png")" -gt 20000 ] &&
		[ "$(grep -c '<path' "$work/drawn/replay.svg")" -gt 5 ] ||
		{ cat "$work/out"; ls -l "$work/drawn"; exit 1; }
fi
mkdir "$work/none" "$work/broken"
picture "$work/none"
grep -q '^# picture  *not drawn: gnuplot is not installed' "$work/out"
printf '#!/bin/sh\nexit 1\n' > "$work/broken/gnuplot"
chmod +x "$work/broken/gnuplot"
! picture "$work/broken" > /dev/null || { echo "a picture that gnuplot did not draw counts"; exit 1; }
grep -q '^# picture  *FAILED: gnuplot' "$work/out"
ran=$((ran + 4))
rm -r "$work/none" "$work/broken" "$work/drawn"

if $replay --block 5K 2> "$work/error" > /dev/null; then
	echo "a block size of 5K was taken"
	exit 1
fi
grep -q -- '--block' "$work/error"

for scene in refused downgraded syscalls killed; do
	"$B/perf/show" $scene > "$work/out" || { cat "$work/out"; exit 1; }
	ran=$((ran + 1))
done
# A folder for temporary files that is too deep for a socket is not used for one.
deep=$work/$(printf '%090d' 0)
mkdir "$deep"
TMPDIR=$deep "$B/perf/show" refused > "$work/out" || { cat "$work/out"; exit 1; }
rmdir "$deep"
ran=$((ran + 1))
# Where nobody may trace, nothing was counted: said, and no success.
rc=0
strace -f -o "$work/out.trace" -e trace=ptrace -e inject=ptrace:error=EPERM \
	"$B/perf/show" syscalls > "$work/out" || rc=$?
[ $rc = 77 ] && grep -q 'NOT COUNTED: Operation not permitted' "$work/out" ||
	{ cat "$work/out"; echo "show syscalls: exit status $rc, not 77"; exit 1; }
[ -z "$(ls "$work" | grep -v -e out -e json -e error)" ] || { ls "$work"; exit 1; }
echo "replay: $ran runs, every byte verified, nothing left behind"
