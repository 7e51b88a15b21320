#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks every door what becomes of every row of tests/vectors/*.json, and compares the
answers byte for byte with what the row says.

    check.py DOOR...        of: thread caller tentd notified notified-tentd ring cpp pybind
                            transfer

A file is for one configuration of the engine ("$uid" stands for the user that runs this):

    about        what its rows are there for
    config       the engine's configuration
    legacy       entries of the older API
    peer         rows aim at another program's memory, so every door goes through tentd
    normalized, effective   what a row's answer has unless it says otherwise
    rows         what follows

A row has a sentence in "row", which can be false, and

    entry, or entries       what differs from a WRITE of 64 bytes from a to b, by the names
                 of the request's fields; "tail": the byte at this offset is not zero
    count, stride, schema, shift, null   of the call; see door.h

and what must come of it, one of

    refused      [category, field], [category, field, index]
    normalized, effective, flags, ended, error   of its entry; or a list of such objects
                 in "expect", for entries

A row may have a configuration instead, and what it is refused for in "says", a path in
the JSON.

Numbers are numbers or places: a, b (64 KiB each), stray (not registered), file and peer
(handles), peer_read, peer_write, peer_own, top (2^64), now, wall (clocks, ns), each with
+n or -n behind it. What the rows expect was written from the RFC and from the facts about
the existing engine, by hand; nothing here computes it.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
BUILD = pathlib.Path(os.environ["B"]).resolve()
LEAST_ROWS = 300

INTENT = {"intent_type", "requested_priority", "deadline_ns", "policy_name", "transport_hint", "flags"}
REQUEST = INTENT | {"opcode", "source", "target_id", "target_offset", "length"}
LAYOUT = {"struct_size", "schema_version", "resv0", "reserved0", "tail"}
LEGACY = {"opcode", "source", "target_id", "target_offset", "length", "priority", "transport_hint"}
CALL = {"count", "stride", "schema", "shift", "null"}
CONFIG = {"config", "says"}
EXPECTED = {"refused", "normalized", "effective", "flags", "ended", "error", "expect"}
# The types of Python have no member for other numbers.
MEMBERS = {
    "opcode": range(2),
    "intent_type": range(7),
    "requested_priority": range(4),
    "transport_hint": range(13),
}


def entries_of(row):
    return [row["entry"]] if "entry" in row else row.get("entries", [])


class Door:
    """words: those of an entry, and of a call, that it can say."""

    def __init__(self, command, engine, entry, call, legacy):
        self.command, self.engine = command, engine
        self.entry, self.call, self.legacy = entry, call, legacy

    def can_say(self, file, row):
        entries = entries_of(row)
        return (
            (self.legacy or not file.get("legacy"))
            and (self.engine == "tentd" or not file.get("peer"))
            and all(set(e) <= (LEGACY if file.get("legacy") else self.entry) for e in entries)
            and set(row) & CALL <= self.call
        )

    def place(self, file):
        return "tentd" if file.get("peer") else self.engine


class Ring(Door):
    """tent_submit() takes an unknown hint for none before the ring sees it."""

    def can_say(self, file, row):
        hints = [e.get("transport_hint", 0) for e in entries_of(row)]
        return super().can_say(file, row) and not (
            file.get("legacy") and any(h not in range(13) for h in hints)
        )


class Typed(Door):
    """Its enumerations refuse what an engine in compat mode would take."""

    def can_say(self, file, row):
        return super().can_say(file, row) and not (
            file.get("compat")
            and any(e.get(f, 0) not in of for e in entries_of(row) for f, of in MEMBERS.items())
        )


class Transfer(Typed):
    """A whole transfer: one entry, a direction for an opcode, and its memory is the call's."""

    def can_say(self, file, row):
        return (
            super().can_say(file, row)
            and "entry" in row
            and row["entry"].get("opcode", 1) in MEMBERS["opcode"]
        )


def built(name):
    return [BUILD / "tests/vectors" / name]


def script(name):
    return [os.environ.get("PYTHON", sys.executable), HERE / name]


DOORS = {
    "thread": Door(built("door_lib"), "thread", REQUEST | LAYOUT, CALL, True),
    "caller": Door(built("door_lib"), "caller", REQUEST | LAYOUT, CALL, True),
    "tentd": Door(built("door_lib"), "tentd", REQUEST | LAYOUT, CALL, True),
    "notified": Door(built("door_lib") + ["--notify"], "thread", REQUEST | LAYOUT, CALL, True),
    "notified-tentd": Door(
        built("door_lib") + ["--notify"], "tentd", REQUEST | LAYOUT, CALL, True
    ),
    "ring": Ring(built("door_ring"), "tentd", REQUEST | LAYOUT, CALL - {"schema"}, True),
    "cpp": Door(built("door_cpp"), "thread", REQUEST, set(), False),
    "pybind": Typed(script("door_pybind.py"), "thread", REQUEST, set(), False),
    "transfer": Transfer(
        script("door_transfer.py"), "thread", INTENT | {"opcode", "target_offset"}, set(), False
    ),
}


# ---- what the rows say -------------------------------------------------------


def refused(said):
    category, field, *index = said
    return {"category": category, "field": field, "index": index[0] if index else 0}


def accepted(file, said):
    entry = {"ended": said.get("ended", "completed"), "flags": said.get("flags", [])}
    if "error" in said:
        category, field = said["error"]
        entry["error"] = {"category": category, "field": field}
    if not file.get("legacy"):
        for part in ("normalized", "effective"):
            entry[part] = {**file[part], **said.get(part, {})}
    return entry


def expected(file, row):
    """The line that every door prints."""
    answer = {"row": row["row"]}
    if "refused" in row:
        answer["refused"] = refused(row["refused"])
    else:
        answer["entries"] = [accepted(file, said) for said in row.get("expect", [row])]
    return json.dumps(answer, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def check_words(path, file):
    """A word that nobody knows would change nothing."""
    names = [row["row"] for row in file["rows"]]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        sys.exit(f"{path.name}: twice: {twice}")
    for row in file["rows"]:
        known = LEGACY if file.get("legacy") else REQUEST | LAYOUT
        strange = set(row) - CALL - EXPECTED - CONFIG - {"row", "entry", "entries"}
        for entry in entries_of(row):
            strange |= set(entry) - known
        if strange:
            sys.exit(f"{path.name}: {row['row']}: nobody knows {strange}")


# ---- asking ------------------------------------------------------------------


class Stage:
    """A configuration's file, and a tentd and a neighbour where they are needed."""

    def __init__(self, folder, file):
        self.folder, self.file, self.programs = pathlib.Path(folder), file, []
        self.config = self.folder / "config.json"
        self.config.write_text(json.dumps(file["config"]).replace('"$uid"', str(os.getuid())))
        self.bytes = self.folder / "bytes"
        self.bytes.write_bytes(bytes(65536))
        self.environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(BUILD),
            "PYTHONPATH": str(BUILD / "python"),
            "TENT_VECTORS_FILE": f"file://{self.bytes}",
        }

    def start_tentd(self):
        where = self.folder / "tentd.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(self.folder / "notify"))
            self.programs.append(
                subprocess.Popen(
                    [BUILD / "tools/tentd", "--config", self.config, "--socket", where],
                    env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")},
                    stderr=subprocess.DEVNULL,
                )
            )
            while b"READY=1" not in notify.recv(4096):
                pass
        self.tentd = f"unix:{where}"
        if self.file.get("peer"):
            self.start_neighbour()

    def start_neighbour(self):
        neighbour = subprocess.Popen(
            built("door_ring") + ["--neighbour"],
            env={**self.environment, "TENT_ENGINE": self.tentd},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.programs.insert(0, neighbour)
        self.environment["TENT_VECTORS_PEER"] = neighbour.stdout.readline().strip()

    def ask(self, door, rows):
        asked = self.folder / "asked.json"
        asked.write_text(json.dumps({**self.file, "rows": rows}))
        place = door.place(self.file)
        environment = {**self.environment, "TENT_ENGINE": place}
        if place == "tentd":
            environment["TENT_ENGINE"] = self.tentd
        else:
            environment["MC_TENT_CONF"] = str(self.config)
        told = subprocess.run(
            [*door.command, asked], env=environment, capture_output=True, text=True
        )
        lines = told.stdout.splitlines()
        if told.returncode:
            lines.append(f"(the door ended with {told.returncode}: {told.stderr})")
        return lines

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            if program.stdin:
                program.stdin.close()
            else:
                program.terminate()
            program.wait()


def compare(path, name, rows, lines, wanted):
    """How many differ."""
    wrong = 0
    for i, line in enumerate(wanted):
        got = lines[i] if i < len(lines) else "nothing"
        if got != line:
            wrong += 1
            print(f"{path.name}, door {name}: {rows[i]['row']}\n  wanted {line}\n  got    {got}")
    for line in lines[len(wanted) :]:
        wrong += 1
        print(f"{path.name}, door {name}: {line}")
    return wrong


def check_config(path, row):
    """The engine's own reader, by tentctl. Every door has its configuration from there."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(row["config"], f)
        f.flush()
        told = subprocess.run(
            [BUILD / "tools/tentctl", "config", "check", f.name], capture_output=True, text=True
        )
    if told.returncode == 1 and f"{row['says']} " in told.stdout + told.stderr:
        return 0
    print(f"{path.name}: {row['row']}\n  {told.returncode}: {told.stdout}{told.stderr}")
    return 1


def check_part(path, file, names, told):
    wrong = 0
    check_words(path, file)
    if "config" not in file:
        return len(file["rows"]), sum(check_config(path, row) for row in file["rows"])
    with tempfile.TemporaryDirectory(prefix="tent-vectors-") as folder, Stage(folder, file) as stage:
        if any(DOORS[name].place(file) == "tentd" for name in names):
            stage.start_tentd()
        for name in names:
            rows = [row for row in file["rows"] if DOORS[name].can_say(file, row)]
            if not rows:
                continue
            wanted = [expected(file, row) for row in rows]
            wrong += compare(path, name, rows, stage.ask(DOORS[name], rows), wanted)
            told[name] = told.get(name, 0) + len(rows)
    return len(file["rows"]), wrong


def main(names):
    rows = wrong = 0
    told = {}
    for path in sorted(HERE.glob("*.json")):
        for part in json.loads(path.read_text()):
            n, bad = check_part(path, part, names, told)
            rows += n
            wrong += bad
    for name in names:
        print(f"{name:14} {told.get(name, 0):4} rows")
    if wrong:
        sys.exit(f"vectors: {wrong} answers are not what the rows say")
    if rows < LEAST_ROWS:
        sys.exit(f"vectors: {rows} rows; needed: {LEAST_ROWS}")
    print(f"vectors: {rows} rows x {len(names)} doors, {sum(told.values())} answers, all equal")


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit(__doc__))
