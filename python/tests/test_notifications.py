# SPDX-License-Identifier: Apache-2.0
"""Notifications: behind data, alone, and what is refused."""
import pytest
from conftest import write

import tent


def test_a_notification_comes_behind_its_data(engine, pair):
    with engine.allocate_batch(1) as batch:
        batch.submit(write(pair), notification=("landed", b"\xff"))
        assert batch.wait().state is tent.TaskState.COMPLETED
    got = []
    while not got:
        got = engine.notifications()
    assert got == [(b"landed", b"\xff")]


def test_alone_it_is_there_when_the_call_returns(engine):
    engine.notify(0, "name", "message")
    assert engine.notifications() == [(b"name", b"message")]
    assert engine.notifications() == []


def test_a_text_is_never_cut(engine):
    with pytest.raises(ValueError):
        engine.notify(0, "a\0b", "")
    with pytest.raises(tent.ArgumentsError):
        engine.notify(0, "n" * 256, "")
    assert engine.notifications() == []
