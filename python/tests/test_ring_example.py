# SPDX-License-Identifier: Apache-2.0
"""docs/protocol.md is enough to write a client by: examples/ring.py is one."""
import importlib.util
import pathlib
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).parent.parent / "examples/ring.py"
spec = importlib.util.spec_from_file_location("ring", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)


def test_the_example_transfers_and_is_refused(tentd):
    said = subprocess.check_output([sys.executable, "-I", EXAMPLE, tentd.socket], text=True)
    assert said == "status 4: a KV block\nerror -4, rule 12: 99 is no intent\n"


@pytest.fixture
def ring(tentd):
    control = example.Control(str(tentd.socket))
    ring = example.Ring(control, slots=8)
    ring.memory = example.Memory(control, 8192)
    ring.control = control
    return ring


def write(ring, length=64, **fields):
    return example.request(1, ring.memory.address, ring.memory.address + 4096, length, **fields)


def test_slots_and_completions_are_used_again(ring):
    for lap in range(200):
        content = bytes([lap]) * 64
        ring.memory.map[:64] = content
        ring.publish([write(ring)] * 3, user_data=lap * 10)
        done = [ring.wait() for _ in range(3)]
        assert sorted(c[4] for c in done) == [lap * 10 + i for i in range(3)]
        assert all(c[2] == 4 and c[5] == 64 for c in done)
        assert ring.memory.map[4096:4160] == content


def test_a_refused_batch_gives_its_room_back_at_once(ring):
    for _ in range(20):
        ring.publish([write(ring), write(ring, intent=6), write(ring)])
        refusal = ring.wait()
        assert refusal[1] & 1 and refusal[7] == 1 and refusal[9] == 3
        assert ring.owed == 0


def test_a_policy_travels_in_its_cell(ring):
    ring.publish([write(ring, policy=b"no.such")])
    assert ring.wait()[6] == -6
    ring.publish([write(ring, policy=b"no such")])
    assert ring.wait()[6] == -3


def test_more_than_there_is_room_for_is_not_published(ring):
    with pytest.raises(BufferError):
        ring.publish([write(ring)] * 9)
