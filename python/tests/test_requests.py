# SPDX-License-Identifier: Apache-2.0
"""What a request may say, and who refuses it."""
import pytest
from conftest import halves, write

import tent


def test_a_write_moves_its_bytes(engine, pair):
    with engine.allocate_batch(1) as batch:
        batch.submit(tent.Request(**write(pair)))
        status = batch.wait()
        assert status.state is tent.TaskState.COMPLETED
        assert status.transferred_bytes == 4096
        assert batch.error(0) == (None, 0)
    first, second = halves(pair)
    assert first == second


def test_several_submits_share_the_tasks_of_a_batch(engine, pair):
    with engine.allocate_batch(3) as batch:
        batch.submit([tent.Request(**write(pair, length=10)), write(pair, length=20)])
        batch.submit(write(pair, length=30))
        assert batch.wait().transferred_bytes == 60
        assert batch.task_status(2).transferred_bytes == 30
        with pytest.raises(tent.CapacityError):
            batch.submit(write(pair))
        with pytest.raises(tent.ArgumentsError):
            batch.task_status(3)


def test_every_field_arrives_at_the_judge(engine, pair):
    deadline_ns = tent.deadline_after_ns(10**9)
    answer = engine.explain(
        write(
            pair,
            intent_type=tent.IntentType.MIGRATION,
            requested_priority=tent.Priority.LOW,
            deadline_ns=deadline_ns,
            transport_hint=tent.TransportType.SHM,
        )
    )
    requested = answer["entries"][0]["requested"]
    assert answer["accepted"]
    assert requested["intent"] == "migration"
    assert requested["priority"] == "low"
    assert requested["deadline_ns"] == deadline_ns
    assert requested["policy"] is None
    assert requested["transport_hint"] == "shm"


def test_a_request_shows_what_it_says(pair):
    r = tent.Request(
        **write(pair, intent_type=1, requested_priority=2, policy_name="kv", transport_hint=3)
    )
    assert r.opcode is tent.Opcode.WRITE
    assert (r.source, r.target_offset, r.length) == (pair.address, pair.address + 4096, 4096)
    assert r.intent_type is tent.IntentType.FOREGROUND_GET
    assert r.requested_priority is tent.Priority.MEDIUM
    assert r.policy_name == "kv"
    assert r.transport_hint is tent.TransportType.SHM
    with pytest.raises(AttributeError):
        r.length = 5


@pytest.mark.parametrize(
    "field, value",
    [
        ("opcode", 2),
        ("intent_type", 7),
        ("intent_type", -1),
        ("requested_priority", 4),
        ("transport_hint", 13),
    ],
)
def test_an_unknown_number_is_refused_even_before_a_compat_engine(pair, field, value):
    with tent.Engine({"engine/validation": "compat"}) as compat, compat.allocate_batch(2) as batch:
        with pytest.raises(tent.EnumError) as refusal:
            batch.submit([write(pair), write(pair, **{field: value})])
        assert refusal.value.index == 1
        assert refusal.value.field == field
        assert refusal.value.code is tent.ErrorCode.ENUM
        assert str(refusal.value).startswith(f"entry 1: {field} is {value}; allowed: ")
    with pytest.raises(tent.EnumError):
        tent.Request(**{field: value})


def test_unknown_members_are_no_members():
    for enumeration in (tent.IntentType, tent.Priority, tent.TransportType, tent.Opcode):
        with pytest.raises(ValueError):
            enumeration(99)


def test_numbers_that_no_field_can_hold_are_no_requests(pair):
    for fields in ({"intent_type": 2**40}, {"length": -1}, {"deadline_ns": 2**64}):
        with pytest.raises(OverflowError):
            tent.Request(**write(pair, **fields))
    for fields in ({"intent_type": "high"}, {"length": 1.5}, {"policy_name": b"kv"}, {"size": 3}):
        with pytest.raises(TypeError):
            tent.Request(**write(pair, **fields))


@pytest.mark.parametrize(
    "fields, category, field",
    [
        ({"intent_type": tent.IntentType.STAGING_INTERNAL}, tent.EnumError, "intent_type"),
        ({"deadline_ns": 2**64 - 1}, tent.DeadlineError, "deadline_ns"),
        ({"policy_name": ""}, tent.LayoutError, "policy_name"),
        ({"policy_name": "x" * 64}, tent.LayoutError, "policy_name"),
        ({"policy_name": "a b"}, tent.LayoutError, "policy_name"),
        ({"policy_name": "kv\0hot"}, tent.LayoutError, "policy_name"),
        ({"policy_name": "Käse"}, tent.LayoutError, "policy_name"),
        ({"policy_name": "nobody"}, tent.PolicyUnknownError, "policy_name"),
        ({"transport_hint": tent.TransportType.RDMA}, tent.UnsupportedError, "transport_hint"),
        ({"flags": 1}, tent.FlagsError, "flags"),
        ({"source": 8}, tent.AddressError, "source"),
        ({"target_offset": 2**64 - 1}, tent.AddressError, "target_offset"),
        ({"target_id": 77}, tent.StaleHandleError, "target_id"),
    ],
)
def test_a_refusal_is_the_librarys_and_moves_nothing(engine, pair, fields, category, field):
    good = write(pair)
    with engine.allocate_batch(2) as batch:
        with pytest.raises(tent.Error) as refusal:
            batch.submit([good, {**good, **fields}])
        assert type(refusal.value) is category
        assert refusal.value.index == 1
        assert refusal.value.field == field
        assert batch.status().transferred_bytes == 0
    assert halves(pair)[1] == bytes(4096)


def test_each_category_has_its_class():
    from tent import errors

    for code in tent.ErrorCode:
        assert errors.of(code, 3, "field", "sentence", 9).code is code
    unknown = errors.of(-99, 0, "", "from a later library", 0)
    assert type(unknown) is tent.Error and unknown.code == -99


def test_normalize_tells_strict_from_compat():
    known = tent.normalize({"intent_type": 3, "policy_name": "kv.hot"})
    assert known.intent_type is tent.IntentType.MIGRATION
    assert known.policy_name == "kv.hot"
    assert known.downgrades == 0
    with pytest.raises(tent.EnumError):
        tent.normalize({"intent_type": 99})
    compat = tent.normalize({"intent_type": 99}, tent.ValidationMode.COMPAT)
    assert compat.intent_type is tent.IntentType.UNSPEC
    assert compat.downgrades is tent.TaskFlags.INTENT_DOWNGRADED
    with pytest.raises(tent.ArgumentsError):
        tent.normalize(tent.Request(), 2)


def test_deadlines_are_of_the_clock_of_monotonic_ns():
    import time

    before = time.monotonic_ns()
    assert before <= tent.monotonic_now_ns() <= time.monotonic_ns()
    assert tent.deadline_after_ns(5) >= before + 5
    with pytest.raises(tent.DeadlineError):
        tent.deadline_after_ns(2**64 - 1)
    with pytest.raises(OverflowError):
        tent.deadline_after_ns(-1)


def test_a_missed_deadline_is_served_and_told(engine, pair):
    with engine.allocate_batch(1) as batch:
        batch.submit(write(pair, deadline_ns=1))
        assert batch.wait().completed
        assert batch.error(0)[1] & tent.TaskFlags.DEADLINE_MISSED
