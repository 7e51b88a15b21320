#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same RDMA by tent, by a loop of libmlx5, and by others' programs, where they are installed:
# perftest, UCX (ucx_perftest) and the engine of Mooncake (tebench). One size, one depth, one
# device, both ends on this machine, one table; it judges nothing.
#
#   perf/compare.sh [-d DEVICE] [-s BYTES] [-n REQUESTS] [-t DEPTH] [-x GID_INDEX]
#
# Without a device it runs on software ConnectX devices: then rows may be compared, and
# nothing else. cpu_us is what a request costs the process that asks, without what it costs
# to start: of others, that of N requests taken from that of 2 N.
set -euo pipefail
B=${B:-build}
device= size=65536 requests=5000 depth=16 gid=
original=("$@")
usage() { sed -n 's/^#   perf/usage: perf/p' "$0" >&2; exit 2; }
while getopts d:s:n:t:x: letter; do
	case $letter in
	d) device=$OPTARG ;;
	s) size=$OPTARG ;;
	n) requests=$OPTARG ;;
	t) depth=$OPTARG ;;
	x) gid=$OPTARG ;;
	*) usage ;;
	esac
done
[ $OPTIND -gt $# ] || usage
for number in "$size" "$requests" "$depth"; do
	[[ $number =~ ^[1-9][0-9]*$ ]] || usage
done

simulated=
if [ -z "$device" ]; then
	[ -n "${TENT_SIM_TREE:-}" ] ||
		exec "$B/tent-sim" --fault timeouts=400% "$0" "${original[@]+"${original[@]}"}"
	device=mlx5_0
	simulated=yes
fi
export LC_ALL=C UCX_WARN_UNUSED_ENV_VARS=n
work=$(mktemp -d "${TMPDIR:-/tmp}/tent-compare-XXXXXX")
server=
trap '[ -z "$server" ] || kill $server 2> /dev/null || true; rm -rf "$work"' EXIT
port=$((20000 + $$ % 10000))

say() { printf '# %-24s %s\n' "$1" "$2"; }
row() { # WHAT OP KREQUESTS/S CPU_US
	awk -v what="$1" -v op="$2" -v bytes="$size" -v depth="$depth" -v k="$3" -v cpu="$4" 'BEGIN {
		printf "  %-22s %-6s %8d %6d %12.1f %10.1f %8s\n", what, op, bytes, depth, k,
			k * 1000 * bytes / 1048576, cpu == "-" ? cpu : sprintf("%.2f", cpu) }'
}

listens() { # PORT
	awk -v at="$(printf ':%04X' "$1")" '$4 == "0A" && $2 ~ at "$" { found = 1 }
		END { exit !found }' /proc/net/tcp /proc/net/tcp6
}

# pair SERVER_COMMAND -- CLIENT_COMMAND: what the client says into $work/out, and the seconds
# of CPU time that it used into $cpu.
pair() {
	local first=()
	while [ "$1" != -- ]; do first+=("$1"); shift; done
	shift
	"${first[@]}" > "$work/server" 2>&1 &
	server=$!
	until listens $port; do
		kill -0 $server 2> /dev/null || { cat "$work/server" >&2; return 1; }
		sleep 0.05
	done
	TIMEFORMAT='%U %S'
	{ time timeout 120 "$@" > "$work/out" 2> "$work/error"; } 2> "$work/time" ||
		{ cat "$work/out" "$work/error" >&2; return 1; }
	cpu=$(awk 'END { print $1 + $2 }' "$work/time")
	wait $server || true
	server=
}

# twice COMMAND_FOR: it is given how many requests, and sets $rate, in 1000 a second; $cost.
twice() {
	local before
	port=$((port + 1))
	"$@" $requests
	before=$cpu
	port=$((port + 1))
	"$@" $((2 * requests))
	cost=$(awk -v a="$before" -v b="$cpu" -v n="$requests" 'BEGIN { print (b - a) / n * 1e6 }')
}

ours() { # PROGRAM: its rows
	local options=(--json -d "$device" -s "$size" -n "$requests" -t "$depth")
	[ -z "$gid" ] || options+=(-x "$gid")
	"$B/perf/rdma_rate" "${options[@]}" > "$work/json" || return 1
	python3 -c 'import json, sys
for r in json.load(open(sys.argv[1]))["tables"]["rdma_rate"]:
    print({"verbs": "libmlx5"}.get(r["what"], r["what"]), r["op"], r["krequests/s"], r["cpu_us"])' \
		"$work/json" > "$work/rows"
	while read -r what op rate cost; do row "$what" "$op" "$rate" "$cost"; done < "$work/rows"
}

perftest() { # PROGRAM REQUESTS
	local options=(-d "$device" -s "$size" -n "$2" -t "$depth" -p $port -F)
	[ -z "$gid" ] || options+=(-x "$gid")
	[ -z "$simulated" ] || options+=(-x 0)
	pair "$1" "${options[@]}" -- "$1" "${options[@]}" 127.0.0.1 || return 1
	rate=$(awk '$1 ~ /^[0-9]+$/ && NF == 5 { rate = $5 } END { print rate * 1000 }' "$work/out")
}

ucx() { # TEST REQUESTS
	local options=(-p $port)
	pair ucx_perftest "${options[@]}" -- ucx_perftest 127.0.0.1 "${options[@]}" -t "$1" -s "$size" \
		-n "$2" -O "$depth" -w 100 -f || return 1
	rate=$(awk '$1 ~ /^[0-9]+$/ { rate = $NF } END { print rate / 1000 }' "$work/out")
}

# It goes by time, and says bytes a second.
mooncake() { # OP
	local name
	tebench --seg_type=DRAM --xport_type=rdma > "$work/server" 2>&1 &
	server=$!
	until name=$(grep -om1 -- '--target_seg_name=[^ ]*' "$work/server"); do
		kill -0 $server 2> /dev/null || { cat "$work/server" >&2; return 1; }
		sleep 0.05
	done
	timeout 120 tebench "$name" --seg_type=DRAM --xport_type=rdma --op_type="$1" --duration=3 \
		--start_block_size="$size" --max_block_size="$size" --start_batch_size="$depth" \
		--max_batch_size="$depth" > "$work/out" 2> "$work/error" ||
		{ cat "$work/out" "$work/error" >&2; return 1; }
	kill $server
	wait $server || true
	server=
	rate=$(awk -v bytes="$size" '$1 == bytes { rate = $3 * 1e9 / bytes } END { print rate / 1000 }' \
		"$work/out")
}

failed() { say "$1" "FAILED, see above"; rc=1; }
rc=0
say device "$device"
[ -z "$simulated" ] || say simulated "software ConnectX devices: not a latency, not a rate"
printf '# %-22s %-6s %8s %6s %12s %10s %8s\n' what op bytes depth krequests/s MiB/s cpu_us
ours || failed rdma_rate
for op in read write; do
	if ! command -v ib_${op}_bw > /dev/null; then
		say "ib_${op}_bw" "not run: it is not installed (package perftest)"
	elif twice perftest ib_${op}_bw; then
		row "perftest ib_${op}_bw" $op "$rate" "$cost"
	else
		failed ib_${op}_bw
	fi
done
export UCX_TLS=rc_x UCX_NET_DEVICES=$device:1
for test in ucp_get:read ucp_put_bw:write; do
	if ! command -v ucx_perftest > /dev/null; then
		say "${test%:*}" "not run: ucx_perftest is not installed (package ucx-utils)"
	elif twice ucx ${test%:*}; then
		row "ucx ${test%:*}" ${test#*:} "$rate" "$cost"
	else
		failed "${test%:*}"
	fi
done
for op in read write; do
	if ! command -v tebench > /dev/null; then
		say "tebench $op" "not run: it is not installed (built with Mooncake's TENT)"
	elif mooncake $op; then
		row "tebench" $op "$rate" -
	else
		failed tebench
	fi
done
exit $rc
