# SPDX-License-Identifier: Apache-2.0
"""Engines and segments, waiting, and transfers in one call."""
import asyncio
import os
import signal
import threading

import pytest
from conftest import write

import tent


def test_settings_are_one_engines_own(monkeypatch):
    monkeypatch.delenv("TENT_ENGINE", raising=False)
    with tent.Engine({"engine": "caller"}) as caller, tent.Engine() as thread:
        assert thread.completion_fd() >= 0
        with pytest.raises(tent.UnsupportedError):
            caller.completion_fd()


def test_an_engine_that_does_not_start_says_why(tmp_path):
    with pytest.raises(tent.EngineLostError):
        tent.Engine({"engine": f"unix:{tmp_path}/nobody"})
    with pytest.raises(tent.ConfigError, match="no/such/key"):
        tent.Engine({"no/such/key": 1})
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(tent.ConfigError):
        tent.Engine(config_file=str(broken))


def test_what_outlives_its_engine_is_stale(settings, pair):
    engine = tent.Engine(settings)
    batch, own = engine.allocate_batch(1), engine.open_segment()
    engine.close()
    for call in (engine.check, batch.status, own.info, lambda: batch.submit(write(pair))):
        with pytest.raises(tent.StaleHandleError):
            call()
    engine.close()


def test_another_clients_segment_is_read_and_written(tentd):
    with tent.Engine({"engine": tentd.engine}) as owner, tent.Engine(
        {"engine": tentd.engine}
    ) as user, owner.allocate(4096) as theirs:
        with theirs.view() as view:
            view[:] = b"k" * 4096
        with user.open_segment(owner.segment_name()) as segment:
            segment.connect(10**9)
            base = segment.info().buffers[0].base
            mine = bytearray(4096)
            moved = tent.transfer(segment.range(base, 4096), mine)
            assert moved == (4096, 0)
            assert mine == b"k" * 4096
            tent.transfer(bytearray(b"v" * 4096), segment.range(base, 4096))
            with theirs.view() as view:
                assert bytes(view) == b"v" * 4096


def test_a_segment_stays_open_for_its_last_user(engine, tmp_path):
    path = tmp_path / "blocks"
    path.write_bytes(b"x" * 4096)
    first, second = (engine.open_segment(f"file://{path}") for _ in range(2))
    assert first.id == second.id
    second.close()
    assert first.info().type is tent.SegmentType.FILE
    first.close()
    with pytest.raises(ValueError):
        first.info()
    with pytest.raises(tent.PeerUnreachableError):
        engine.open_segment("nobody")


def test_a_failed_task_raises_its_category(engine, tmp_path):
    path = tmp_path / "blocks"
    path.write_bytes(b"x" * 4096)
    with engine.open_segment(f"file://{path}") as file:
        with pytest.raises(tent.RuntimeFailedError) as failure:
            engine.transfer(file.range(1 << 30, 4096), bytearray(4096))
        assert failure.value.field == "target_offset"


def test_a_transfer_moves_between_memory_of_one_program(engine):
    source, target = bytearray(b"a" * 70000), bytearray(70000)
    assert engine.transfer(source, target, intent_type=tent.IntentType.CHECKPOINT) == (70000, 0)
    assert source == target


def test_a_transfer_that_is_refused_gives_its_memory_back(engine):
    source, target = bytearray(4096), bytearray(4096)
    for intent in ({"intent_type": 99}, {"policy_name": "nobody"}, {"flags": 8}):
        with pytest.raises(tent.Error):
            engine.transfer(source, target, **intent)
    with pytest.raises(TypeError):
        engine.transfer(source, target, intent="get")
    with pytest.raises(ValueError):
        engine.transfer(source, bytearray(10))
    source.extend(b"more")


def test_transfer_finds_its_engine(engine):
    target = bytearray(4096)
    with engine.allocate(4096) as memory:
        assert tent.transfer(memory, target).transferred_bytes == 4096
        assert tent.transfer(target, memory).transferred_bytes == 4096
    assert tent.transfer(target, bytearray(4096), engine=engine).transferred_bytes == 4096
    with pytest.raises(TypeError):
        tent.transfer(target, bytearray(4096))


def test_other_threads_run_while_one_submits(held):
    """One that kept the interpreter's lock would wait for the verdict forever."""
    verdicts = []
    with tent.Engine({"engine": held.engine}) as engine, engine.allocate(8192) as memory:
        batch = engine.allocate_batch(1)
        held.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, held.process.pid, os.WSTOPPED)
        thread = threading.Thread(target=lambda: verdicts.append(batch.submit(write(memory))))
        thread.start()
        held.process.send_signal(signal.SIGCONT)
        thread.join()
        assert verdicts == [None]


def test_other_threads_run_while_one_waits(pending):
    engine, memory, batch = pending
    ended = []
    thread = threading.Thread(target=lambda: ended.append(batch.wait()))
    thread.start()
    assert batch.wait(0).state is tent.TaskState.PENDING
    batch.cancel(0)
    thread.join()
    assert ended[0].state is tent.TaskState.CANCELED
    with pytest.raises(tent.CanceledError):
        batch.raise_failure()


def test_a_wait_ends_with_its_timeout(pending):
    assert pending[2].wait(0.06).state is tent.TaskState.PENDING


def test_a_wait_is_interrupted_by_a_signal(pending):
    class Interrupted(Exception):
        pass

    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            pending[2].wait()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_transfer_that_takes_too_long_is_canceled(pending):
    engine, memory, batch = pending
    with engine.allocate(8192) as other:
        with pytest.raises(tent.TimeoutError):
            engine.transfer(memory, other, timeout=0)
    assert batch.status().state is tent.TaskState.PENDING  # the other one goes on


def test_canceling_a_task_of_asyncio_cancels_the_transfer(pending):
    engine, memory, batch = pending

    async def begin_and_cancel(other):
        transfer = asyncio.ensure_future(engine.transfer_async(memory, other))
        await asyncio.sleep(0)  # it waits now
        transfer.cancel()
        await transfer

    with engine.allocate(8192) as other:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(begin_and_cancel(other))
    assert batch.status().state is tent.TaskState.PENDING  # the other one goes on


def test_a_lost_engine_ends_what_asyncio_waits_for(held, pending):
    engine, memory, batch = pending

    async def lose():
        waiter = asyncio.ensure_future(engine.wait(batch))
        await asyncio.sleep(0)  # it waits now
        held.process.kill()
        return await waiter

    assert asyncio.run(lose()).state is tent.TaskState.FAILED
    with pytest.raises(tent.EngineLostError):
        batch.raise_failure()
    with pytest.raises(tent.EngineLostError):
        engine.check()


def test_threads_share_a_batch(engine, pair):
    with engine.allocate_batch(400) as batch:
        def submit():
            for _ in range(100):
                batch.submit(write(pair, length=16))

        threads = [threading.Thread(target=submit) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert batch.wait().transferred_bytes == 6400
        batch.raise_failure()


def test_a_zero_timeout_looks_once(engine, pair):
    with engine.allocate_batch(1) as batch:
        batch.submit(write(pair))
        assert batch.wait(0).state in (tent.TaskState.PENDING, tent.TaskState.COMPLETED)
        assert batch.wait(float("inf")).completed
        batch.cancel(0)
        assert batch.task_status(0).completed


def test_asyncio_waits_by_the_completion_descriptor(tentd):
    async def main(engine):
        blocks = [(bytearray(os.urandom(9000)), bytearray(9000)) for _ in range(20)]
        await asyncio.gather(*(engine.transfer_async(*ends) for ends in blocks))
        return all(source == target for source, target in blocks)

    for settings in ({"engine": tentd.engine}, {"engine": "thread"}):
        with tent.Engine(settings) as engine:
            for _ in range(3):  # each in a loop of its own
                assert asyncio.run(main(engine))
