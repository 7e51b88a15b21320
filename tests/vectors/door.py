# SPDX-License-Identifier: Apache-2.0
"""What the doors of Python share: the words of rows, and the answers; see check.py."""
import ctypes
import json
import mmap
import os
import sys
import time

import tent

SIZE = 65536
LENGTH = 64
FIELDS = {
    "opcode": tent.Opcode,
    "intent_type": tent.IntentType,
    "requested_priority": tent.Priority,
    "transport_hint": tent.TransportType,
}


class Scene:
    """An engine of TENT_ENGINE, two blocks, and the places that rows name."""

    def __init__(self, file):
        self.engine = tent.Engine()
        self.a, self.b = self.engine.allocate(SIZE), self.engine.allocate(SIZE)
        self.stray = mmap.mmap(-1, SIZE)
        self.segments = {"file": self.engine.open_segment(os.environ["TENT_VECTORS_FILE"])}
        self.places = {
            "a": self.a.address,
            "b": self.b.address,
            "stray": address_of(self.stray),
            "top": 1 << 64,
        }
        if file.get("peer"):
            name, *addresses = os.environ["TENT_VECTORS_PEER"].split()
            self.segments["peer"] = self.engine.open_segment(name)
            self.places.update(zip(("peer_read", "peer_write", "peer_own"), map(int, addresses)))

    def number(self, word, now):
        """A number of the row, by its words: 7, "a+64", "now-1"."""
        if isinstance(word, int):
            return word
        at = next((i for i, c in enumerate(word) if c in "+-"), len(word))
        name, rest = word[:at], int(word[at:] or 0)
        if name in self.segments:
            return self.segments[name].id
        clocks = {"now": now, "wall": time.time_ns()}
        return (clocks[name] if name in clocks else self.places[name]) + rest

    def fields(self, entry, now):
        """Of a request, members of the enumerations where there is one."""
        fields = {
            name: value if name == "policy_name" else self.number(value, now)
            for name, value in entry.items()
        }
        for name, enumeration in FIELDS.items():
            if fields.get(name) in list(enumeration):
                fields[name] = enumeration(fields[name])
        return fields


def address_of(memory):
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def entries_of(row):
    return [row["entry"]] if "entry" in row else row["entries"]


# ---- answers -----------------------------------------------------------------


def refused(error):
    return {"refused": {"category": error.code.name, "field": error.field, "index": error.index}}


def differing(answer, explained, error=None):
    """What explain says of the batch is the same."""
    said = explained["refusal"]
    same = (
        (said["category"], said["field"], said["index"])
        == (error and (error.code, error.field, error.index))
        if said
        else error is None
    )
    return answer if same else {**answer, "explain says": said}


def normalized(request, entry, mode):
    n = tent.normalize(request, mode)
    deadline = entry.get("deadline_ns", 0)
    return {
        "opcode": n.opcode.name.lower(),
        "intent_type": n.intent_type.name.lower(),
        "requested_priority": n.requested_priority.name.lower(),
        "deadline_ns": deadline if n.deadline_ns == request.get("deadline_ns", 0) else n.deadline_ns,
        "policy_name": n.policy_name,
        "transport_hint": {"IOURING": "io_uring", "ASCEND_DIRECT": "ascend"}.get(
            n.transport_hint.name, n.transport_hint.name.lower()
        ),
    }


def effective(explained):
    return {
        **explained["effective"],
        "downgrades": [d["rule"] for d in explained["downgrades"]],
        "transport": explained["plan"]["transport"],
        "deadline": explained["deadline"]["state"],
    }


def ended(state, flags, error=None):
    answer = {"ended": state, "flags": [f.name for f in tent.TaskFlags if f & flags]}
    if error is not None:
        answer["error"] = {"category": error.code.name, "field": error.field}
    return answer


def mode_of(explained):
    return tent.ValidationMode[explained["validation"].upper()]


def main(ask, make=Scene):
    """ask: a scene, a row, the clock of its times; returns the answer."""
    with open(sys.argv[1], encoding="utf-8") as f:
        file = json.load(f)
    scene = make(file)
    for row in file["rows"]:
        answer = {**ask(scene, row, time.monotonic_ns()), "row": row["row"]}
        print(json.dumps(answer, sort_keys=True, separators=(",", ":"), ensure_ascii=False), flush=True)
