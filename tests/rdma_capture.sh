#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A trace is replayed between two hosts by RDMA while all packets between them are captured:
# as tshark reads them, each host asked the other for as many WRITEs, READs and bytes as its
# engine says that it did, and those bytes went over the cable.
set -euo pipefail
B=${B:-build}
work=$(mktemp -d /tmp/tent-test-capture-XXXXXX)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work

refuse() {
	cat "$work/out"
	echo "rdma_capture: $1"
	exit 1
}

# An open loop: on a machine with other work nothing may be there yet to be read.
for speed in 20 5 1; do
	if "$B/perf/replay" --transport rdma --requests 60 --pool 256M --staging 64M --block 16K \
		--speed $speed --capture "$work/pcap" --json > "$work/out"; then
		break
	fi
	grep -q 'no block was read' "$work/out" && [ $speed != 1 ] || refuse "the replay failed"
done

tshark -r "$work/pcap" -T fields -e ip.src -e ip.dst -e udp.length -e infiniband.bth.opcode \
	-e infiniband.bth.destqp -e infiniband.bth.psn -e infiniband.reth.dmalen -e _ws.malformed \
	> "$work/packets" 2> "$work/error" || { cat "$work/error"; refuse "tshark failed"; }

python3 - "$work/out" "$work/packets" <<- 'END' || refuse "the packets say something else"
	import collections, json, re, sys

	HEADERS = 8 + 12 + 4                    # UDP, BTH, ICRC
	RETH, AETH, MTU = 16, 4, 4096
	FIRST, LAST, ONLY, READ = 6, 8, 10, 12  # opcodes of RC, of an RDMA WRITE and READ
	RESPONSES = {13: AETH, 14: 0, 15: AETH, 16: AETH}

	facts = json.load(open(sys.argv[1]))["facts"]
	did = collections.defaultdict(collections.Counter)  # by who asked, and whom
	seen = set()                            # a packet may be sent again
	asked = {}                              # PSNs of READs, by where their answers go
	lines = open(sys.argv[2]).read().splitlines()

	def new(*key):
	    known = key in seen
	    seen.add(key)
	    return not known

	for line in lines:
	    src, dst, udp, opcode, qp, psn, dma, malformed = line.split("\t")
	    if malformed:
	        sys.exit(f"malformed: {line}")
	    udp, opcode, qp, psn = (int(x, 0) for x in (udp, opcode, qp, psn))
	    pair = did[src, dst]
	    if FIRST <= opcode <= ONLY and new(src, qp, psn, "request"):
	        begins = opcode in (FIRST, ONLY)
	        pair["writes"] += begins
	        pair["write_bytes"] += int(dma, 0) if begins else 0
	        pair["write_payload"] += udp - HEADERS - (RETH if begins else 0)
	    elif opcode == READ and new(src, qp, psn, "request"):
	        pair["reads"] += 1
	        pair["read_bytes"] += int(dma, 0)
	        for i in range(-(-int(dma, 0) // MTU)):     # a part may be asked for again
	            seen.add((src, qp, (psn + i) & 0xffffff, "request"))
	    elif opcode in RESPONSES and new(src, qp, psn, "response"):
	        did[dst, src]["read_payload"] += udp - HEADERS - RESPONSES[opcode]

	if len(lines) != int(facts["captured_packets"]):
	    sys.exit(f"{len(lines)} packets read, {facts['captured_packets']} captured")
	engines = {}
	for name in ("store_engine", "server_engine"):
	    said = re.search(r"::ffff:([0-9.]+)[^:]*: (\d+) WRITEs and (\d+) READs of (\d+) bytes", facts[name])
	    engines[said[1]] = tuple(int(x) for x in said.groups()[1:])
	a, b = engines
	for me, peer in ((a, b), (b, a)):
	    c = did[me, peer]
	    if engines[me] != (c["writes"], c["reads"], c["write_bytes"] + c["read_bytes"]):
	        sys.exit(f"{me} to {peer}: the engine says {engines[me]}, tshark {dict(c)}")
	    if c["write_payload"] != c["write_bytes"] or c["read_payload"] != c["read_bytes"]:
	        sys.exit(f"{me} to {peer}: asked for and carried differ: {dict(c)}")
	if set(did) - {(a, b), (b, a)} or not did[b, a]["reads"] or not did[b, a]["writes"]:
	    sys.exit(f"nobody asked, or somebody else: {dict(did)}")
	print(f"{len(lines)} packets, {did[b, a]['writes']} WRITEs, {did[b, a]['reads']} READs, "
	      f"{did[b, a]['write_bytes'] + did[b, a]['read_bytes']} bytes from {b} to {a}, none back")
END
[ -z "$(ls "$work" | grep -vx -e out -e pcap -e packets -e error)" ] || refuse "left behind: $(ls "$work")"
echo "rdma_capture: tshark and the engines agree on WRITEs, READs and bytes, from either host"
