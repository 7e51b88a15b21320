#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rdma_lat, rdma_bw and rdma_rate start, end and say numbers that can be true, on both links,
# with one queue pair and with more, on a device that is named and by another process's
# invitation; and compare.sh says the same of others' programs, or that they are not there.
set -euo pipefail
# On a host, that is in a network, of its own: another's may have devices of another link.
own='ip link set lo up && exec "$@"'
if [ -z "${TENT_TEST_OWN_HOST:-}" ] && unshare --net sh -c "$own" sh true; then
	TENT_TEST_OWN_HOST=yes exec unshare --net sh -c "$own" sh "$0"
fi
B=${B:-build}
work=$(mktemp -d /tmp/tent-test-rdma-XXXXXX)
server=
trap '[ -z "$server" ] || kill $server 2> /dev/null || true; rm -rf "$work"' EXIT
export TMPDIR=$work
ran=0

measure() { # WHAT_RUNS_IT PROGRAM ROWS OPTIONS...
	local rc=0
	$1 "$B/perf/$2" --json --check -n 100 "${@:4}" > "$work/out" 2> "$work/error" || rc=$?
	python3 - "$2" "$work/out" "$3" "$rc" <<- 'END' || { cat "$work/error" "$work/out"; exit 1; }
	import json, sys

	program, path, nr, status = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
	report = json.load(open(path))
	facts, rows = report["facts"], report["tables"][program]
	if len(rows) != nr or len({(r["what"], r["op"], r["bytes"]) for r in rows}) != nr:
	    sys.exit(f"{program}: rows are missing or twice there")
	for r in rows:
	    if program == "rdma_lat":
	        values = [r[f"{p}_rtt_us"] for p in ("p50", "p99", "p999", "max")]
	        sound = r["n"] == 100 and values == sorted(values) and values[0] > 0
	    else:
	        sound = r["MiB/s" if program == "rdma_bw" else "krequests/s"] > 0 and r["cpu_us"] > 0
	    if not sound:
	        sys.exit(f"{program}: no sound row: {r}")
	if "WRITEs" not in facts["engine"] or " 0 WRITEs" in facts["engine"]:
	    sys.exit(f"{program}: nothing went by RDMA: {facts['engine']}")
	checks = {v.split(":")[0] for k, v in facts.items() if k.startswith("check_")}
	want = 2 if "not compared" in checks else int("FAIL" in checks)
	if checks - {"pass", "FAIL", "not compared"} or not checks or status != want:
	    sys.exit(f"{program}: exit status {status} beside the checks {checks}")
	END
	ran=$((ran + 1))
}

# Devices live a little longer than who was on them, so each link has a host.
on_own="unshare --net $work/own"
printf '#!/bin/sh\n%s\n' "$own" > "$work/own"
chmod +x "$work/own"
for link in roce ib; do
	measure "$on_own" rdma_lat 12 --link $link
	measure "$on_own" rdma_bw 8 -t 8 --link $link
	measure "$on_own" rdma_rate 4 -t 32 -s 200 -x 0 --link $link
done
measure "" rdma_rate 2 -q 3 -t 8
measure "$B/tent-sim --fault timeouts=400%" rdma_bw 8 -d mlx5_0 -s 128K

"$B/perf/rdma_bw" --listen 127.0.0.1 -s 64K > "$work/invitation" & server=$!
until segment=$(grep -o -- '--peer [^,]*' "$work/invitation"); do
	kill -0 $server || { echo "rdma_bw --listen ended"; exit 1; }
	sleep 0.05
done
measure "" rdma_bw 2 -s 64K $segment
kill $server
wait $server
server=

if "$B/perf/rdma_rate" -t 0 > "$work/out" 2> "$work/error" ||
	! grep -q -- '--depth is 0; allowed: 1..512' "$work/error"; then
	cat "$work/error"
	exit 1
fi

if "$B/perf/rdma_lat" -x 200 > "$work/out" 2> "$work/error" ||
	! grep -q 'port 1: GID 200 is empty' "$work/error"; then
	cat "$work/error"
	exit 1
fi

perf/compare.sh -n 500 -t 8 > "$work/out" 2> "$work/error" || { cat "$work/out" "$work/error"; exit 1; }
[ "$(grep -cE '^  (libmlx5|tent) +(read|write) ' "$work/out")" = 4 ] &&
	[ "$(grep -cE '^(  perftest|  ucx|  tebench|# .* not run: )' "$work/out")" = 6 ] ||
	{ cat "$work/out"; exit 1; }
[ -z "$(ls "$work" | grep -vx -e out -e error -e invitation -e own)" ] || { ls "$work"; exit 1; }
echo "rdma_perf: $ran runs and compare.sh give sound numbers"
