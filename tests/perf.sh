#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The perf programs start, end and say numbers that can be true: every row is there,
# percentiles rise, ratios are those of their columns, the exit status is what the
# checks say. How fast anything is, `make perf` judges.
set -euo pipefail
B=${B:-build}
work=$(mktemp -d /tmp/tent-test-perf-XXXXXX)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work

measure() { # PROGRAM OPTIONS...: into $work/out.json, and its exit status into $rc
	rc=0
	"$B/perf/$1" --json --check "${@:2}" > "$work/out.json" 2> "$work/error" || rc=$?
	if grep -q 'two usable cores are needed' "$work/error"; then
		echo "perf: not measured: $(cat "$work/error")"
		exit 0
	fi
}

sane() { # PROGRAM: of what measure() got
	python3 - "$1" "$work/out.json" "$rc" <<- 'END' || { cat "$work/error" "$work/out.json"; exit 1; }
	import json, sys

	program, path, status = sys.argv[1], sys.argv[2], int(sys.argv[3])
	report = json.load(open(path))
	facts = report["facts"]

	def need(ok, what):
	    if not ok:
	        sys.exit(f"{program}: {what}")

	def rising(row, unit):
	    values = [row[f"{p}_{unit}"] for p in ("p50", "p99", "p999", "max")]
	    need(0 < values[0] < 1e9 and values == sorted(values), f"no percentiles: {row}")

	def is_ratio(ratio, a, b, row):
	    need(abs(ratio - a / b) < 0.01 + 0.02 * ratio, f"no ratio of its columns: {row}")

	def round_trips(rows):
	    subjects = {row["what"]: row for row in rows}
	    floor = subjects["cache-line ping-pong"]["p50_rtt_ns"]
	    need({"ring NOP", "ring request, null backend"} <= set(subjects), "a subject is missing")
	    need(len(rows) == 5 or "not_measured" in facts, "a subject is missing, unsaid")
	    for row in rows:
	        need(row["n"] >= 1000, f"too few rounds: {row}")
	        rising(row, "rtt_ns")
	        is_ratio(row["to_pingpong"], row["p50_rtt_ns"], floor, row)

	def rates(rows):
	    want = {(mode, size, batch) for mode in ("thread", "caller", "daemon")
	            for size in (64, 4096) for batch in (1, 16, 128)}
	    want |= {("thread, null backend", 64, batch) for batch in (1, 16, 128)}
	    need({(r["mode"], r["bytes"], r["batch"]) for r in rows} == want and
	         len(rows) == len(want), "rows are missing or twice there")
	    # In the few milliseconds of a row others may have had the engine's core.
	    least = -1 if any("other programs" in w for w in report["warnings"]) else 0
	    for row in rows:
	        need(least < row["Mrequests/s"] < 1000 and 0 < row["Mslots_raw/s"] < 1000,
	             f"no rate: {row}")
	        need(row["n_batches"] > 0, f"nothing timed: {row}")
	        rising(row, "batch_ns")
	        is_ratio(row["ratio"], row["Mrequests/s"], row["Mslots_raw/s"], row)

	def neighbour(rows):
	    shapes = [(1, 64), (16, 4096), (16, 65536)]
	    need(sorted((r["requests"], r["bytes"], r["priority"]) for r in rows) ==
	         sorted((*s, p) for s in shapes for p in ("same", "higher")), "rows are missing")
	    need(facts["huge_batches"] > 0, "the neighbour did nothing")
	    for row in rows:
	        for which in ("quiet", "beside"):
	            need(0 < row[f"p50_{which}_us"] <= row[f"p999_{which}_us"], f"no percentiles: {row}")
	        is_ratio(row["p999_ratio"], row["p999_beside_us"], row["p999_quiet_us"], row)

	for name, rows in report["tables"].items():
	    {"round_trip": round_trips, "submit_rate": rates, "neighbour": neighbour}[name](rows)
	need(report["tables"], "no table")
	need(facts["program"].startswith(program + " "), "another program's facts")
	checks = [text.split(":")[0] for name, text in facts.items() if name.startswith("check_")]
	need(len(checks) == (1 if program == "neighbour" else 2) and
	     set(checks) <= {"pass", "FAIL", "not compared"}, f"checks: {checks}")
	expected = 1 if "FAIL" in checks else 2 if "not compared" in checks else 0
	need(status == expected, f"exit status {status} beside the checks {checks}")
	END
}

measure ring_rtt --runs 2 --rounds 1000
sane ring_rtt
measure submit_rate --runs 1 --ms 10
sane submit_rate
measure neighbour --runs 1 --rounds 200
sane neighbour

# Judges nothing, so it is looked at here: every subject, and without io_uring one less.
files() { # SUBJECTS COMMAND...
	local subjects=$1
	"${@:2}" "$B/perf/file_bw" --json --runs 1 --ms 10 --size 4M --folder "$work" \
		> "$work/out.json" 2> "$work/error" || { cat "$work/error"; exit 1; }
	python3 - "$work/out.json" "$subjects" <<- 'END' || { cat "$work/out.json"; exit 1; }
	import json, sys

	report = json.load(open(sys.argv[1]))
	rows = report["tables"]["file_bw"]
	kinds = {(r["what"], r["op"], r["bytes"]) for r in rows}
	if len(rows) != 6 * int(sys.argv[2]) or len(kinds) != len(rows):
	    sys.exit("file_bw: rows are missing or twice there")
	for r in rows:
	    values = [r[f"{p}_us"] for p in ("p50", "p99", "p999", "max")]
	    if r["n"] < 1 or not 0 < r["MiB/s"] < 1e6 or values != sorted(values) or values[0] <= 0:
	        sys.exit(f"file_bw: no sound row: {r}")
	if ("not_measured" in report["facts"]) != (int(sys.argv[2]) == 2):
	    sys.exit("file_bw: a subject is missing, unsaid")
	END
}
files 3 env
files 2 strace -f -o "$work/trace" -e trace=io_uring_setup -e inject=io_uring_setup:error=EPERM

# Between two processes over TCP, with io_uring and without.
tcp() { # PROGRAM ROWS OPTIONS...
	rc=0
	"$B/perf/$1" --json --check --runs 1 "${@:3}" > "$work/out.json" 2> "$work/error" || rc=$?
	python3 - "$1" "$work/out.json" "$2" "$rc" <<- 'END' || { cat "$work/error" "$work/out.json"; exit 1; }
	import json, sys

	program, path, nr, status = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
	report = json.load(open(path))
	rows = report["tables"][program]
	kinds = {(r["what"], r.get("op"), r["bytes"]) for r in rows}
	if len(rows) != nr or len(kinds) != nr:
	    sys.exit(f"{program}: rows are missing or twice there")
	for r in rows:
	    if program == "tcp_bw":
	        sound = 0 < r["MiB/s"] < 1e6
	    else:
	        values = [r[f"{p}_rtt_us"] for p in ("p50", "p99", "p999", "max")]
	        sound = r["n"] >= 100 and values == sorted(values) and values[0] > 0
	    if not sound:
	        sys.exit(f"{program}: no sound row: {r}")
	checks = [v.split(":")[0] for k, v in report["facts"].items() if k.startswith("check_")]
	if set(checks) - {"pass", "FAIL"} or not checks or status != ("FAIL" in checks):
	    sys.exit(f"{program}: exit status {status} beside the checks {checks}")
	END
}
for plain in "" --plain; do
	tcp tcp_lat 12 --rounds 100 $plain
	tcp tcp_bw 8 --ms 10 $plain
done

# Without io_uring there is nothing to be faster than: said, and no success.
rc=0
strace -f -o "$work/trace" -e trace=io_uring_setup -e inject=io_uring_setup:error=ENOSYS \
	"$B/perf/ring_rtt" --json --check --runs 1 --rounds 1000 > "$work/out.json" || rc=$?
grep -q '"check_io_uring": "not compared' "$work/out.json" || { cat "$work/out.json"; exit 1; }
sane ring_rtt
[ "$rc" != 0 ] || { echo "ring_rtt --check passes without io_uring"; exit 1; }

echo "perf: ring_rtt, submit_rate, neighbour, file_bw, tcp_lat and tcp_bw give sound numbers, and say what they cannot compare"
