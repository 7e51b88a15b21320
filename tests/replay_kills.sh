#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# While a trace is replayed between two hosts one of their engines is killed, now this one
# and now that, 20 times or, with TENT_SOAK, 200 times: every request ends, whatever was
# said to be written is in the store, whatever is read is right, and the replay goes on.
# By TCP, and half as often by RDMA.
set -euo pipefail
B=${B:-build}
kills=20
requests=400
bound_ms=5100	# docs/peers.md: 3.1 s for the link, 2 s for the fence
[ -z "${TENT_SOAK:-}" ] || { kills=200; requests=4000; }
work=$(mktemp -d /tmp/tent-test-replay-XXXXXX)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work

refuse() {
	cat "$work/out"
	echo "replay_kills: $1"
	exit 1
}

# What a number of the facts is: fact NAME PATTERN, the pattern has it in parentheses.
fact() { sed -nE "s/.*\"$1\": \"?$2.*/\1/p" "$work/out"; }

# Whether a request is under way when the blow falls is chance: with another seed it is again.
killed() { # TRANSPORT KILLS REQUESTS OPTIONS...
	local seed store server under_way=0 longest
	for seed in 1 2 3 4; do
		"$B/perf/replay" --transport $1 --requests $3 --pool 256M --speed 50 --seed $seed \
			--kills $2 --json "${@:4}" > "$work/out" || refuse "the replay by $1 failed"
		[ "$(fact kills '([0-9]+):')" = $2 ] || refuse "not all kills were made"
		store=$(fact kills '.* ([0-9]+) of the store')
		server=$(fact kills '.* ([0-9]+) of the server')
		under_way=$(fact kills '.* ([0-9]+) with requests')
		[ "$store" = 0 ] || [ "$server" = 0 ] || [ "$under_way" = 0 ] || break
	done
	[ "$store" -gt 0 ] && [ "$server" -gt 0 ] && [ "$under_way" -gt 0 ] ||
		refuse "only one engine was killed, or only idle ones"
	[ "$(fact wrong_blocks '([0-9]+)')" = 0 ] || refuse "wrong bytes"
	[ "$(fact read_bytes '([0-9]+)')" = "$(fact verified_bytes '([0-9]+)')" ] ||
		refuse "unverified bytes"
	[ "$(fact checked_blocks '([0-9]+)')" -gt 0 ] || refuse "nothing was written between kills"
	longest=$(fact killed_requests '.*max ([0-9]+)')
	if [ "$longest" -gt $bound_ms ]; then	# on a machine that others use it says little
		[ -z "${TENT_SOAK:-}" ] || refuse "a request ended $longest ms after the kill"
		echo "replay_kills: note: a request ended $longest ms after the kill, not within $bound_ms"
	fi
	said+="; $1: $2 kills, $store of the store's engine, $server of the server's, $under_way in mid-request,"
	said+=" the last request ended $longest ms after one at most"
}

said=
killed tcp $kills $requests --staging 64M
killed rdma $((kills / 2)) $((requests / 2)) --block 128K --staging 128M
[ -z "$(ls "$work" | grep -vx out)" ] || refuse "left behind: $(ls "$work")"
echo "replay_kills: every byte verified$said"
