# SPDX-License-Identifier: Apache-2.0
"""Engines for the tests: each test with one runs in-process, in caller mode and on a tentd."""
import os
import pathlib
import signal
import socket
import subprocess

import pytest

import tent

BUILD = pathlib.Path(os.environ["TENT_BUILD"])


class Tentd:
    """A tentd of the test's own, known to be ready."""

    def __init__(self, folder, *options):
        self.socket = folder / "tentd.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(folder / "notify"))
            self.process = subprocess.Popen(
                [BUILD / "tools/tentd", "--socket", self.socket]
                + [word for option in options for word in ("-o", option)],
                env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify")},
                stderr=subprocess.DEVNULL,
            )
            while b"READY=1" not in notify.recv(4096):
                pass
        self.engine = f"unix:{self.socket}"

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait()


@pytest.fixture
def tentd(tmp_path):
    daemon = Tentd(tmp_path)
    yield daemon
    daemon.end()


@pytest.fixture(params=["thread", "caller", "tentd"])
def settings(request):
    """Of an engine of each kind."""
    if request.param == "tentd":
        return {"engine": request.getfixturevalue("tentd").engine}
    return {"engine": request.param}


@pytest.fixture
def engine(settings):
    with tent.Engine(settings) as e:
        yield e


@pytest.fixture
def pair(engine):
    """Two halves of one allocation: what is copied from, and to."""
    with engine.allocate(8192) as memory:
        with memory.view() as view:
            view[:4096] = bytes(range(256)) * 16
        yield memory


HOLDING = (
    "transports/shm/enable=false",
    "transports/null/enable=true",
    "transports/null/faults=pending=1,hold",
    "engine/request_timeout_ms=86400000",
)


@pytest.fixture
def held(tmp_path):
    """A tentd that accepts requests, moves nothing and ends none that is not canceled."""
    daemon = Tentd(tmp_path, *HOLDING)
    yield daemon
    daemon.process.send_signal(signal.SIGCONT)
    daemon.end()


@pytest.fixture
def pending(held):
    """A request that is on its way: engine, memory, batch."""
    with tent.Engine({"engine": held.engine}) as engine:
        memory = engine.allocate(8192)
        batch = engine.allocate_batch(1)
        batch.submit(write(memory))
        yield engine, memory, batch


def write(memory, **fields):
    """A WRITE from the first half of a pair into the second."""
    return {
        "opcode": tent.Opcode.WRITE,
        "source": memory,
        "target_offset": memory.address + 4096,
        "length": 4096,
        **fields,
    }


def halves(memory):
    with memory.view() as view:
        return bytes(view[:4096]), bytes(view[4096:])
