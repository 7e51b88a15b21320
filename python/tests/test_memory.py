# SPDX-License-Identifier: Apache-2.0
"""Whose memory it is, and how long."""
import ctypes
import gc
import mmap
import weakref

import numpy
import pytest
from conftest import write

import tent

CONTENT = bytes(range(256)) * 16


class ByDlpack:
    """A tensor that only DLPack can look into."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return (self.device, 0)


class ByPointer:
    """As a tensor of torch has it."""

    def __init__(self, size, contiguous=True):
        self.memory = ctypes.create_string_buffer(size)
        self.nbytes, self.contiguous = size, contiguous

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def is_contiguous(self):
        return self.contiguous


def of_bytearray():
    memory = bytearray(4096)
    return memory, lambda: bytes(memory)


def of_numpy():
    memory = numpy.zeros((32, 32), dtype=numpy.float32)
    return memory, memory.tobytes


def of_dlpack():
    memory = numpy.zeros((64, 8), dtype=numpy.int64)
    return ByDlpack(memory), memory.tobytes


def of_pointer():
    memory = ByPointer(4096)
    return memory, lambda: memory.memory.raw


def of_mmap():
    memory = mmap.mmap(-1, 4096)
    return memory, lambda: memory[:]


@pytest.mark.parametrize("kind", [of_bytearray, of_numpy, of_dlpack, of_pointer, of_mmap])
def test_memory_of_every_kind_takes_part(engine, kind):
    memory, content = kind()
    with engine.allocate(4096) as source, engine.register(memory) as registered:
        with source.view() as view:
            view[:] = CONTENT
        assert len(registered) == 4096
        with engine.allocate_batch(1) as batch:
            batch.submit(
                tent.Request(opcode=tent.Opcode.WRITE, source=source, target_offset=registered)
            )
            assert batch.wait().completed
        assert content() == CONTENT


def test_registered_memory_can_neither_move_nor_go(engine):
    memory = bytearray(4096)
    with engine.register(memory):
        with pytest.raises(BufferError):
            memory.extend(b"more")
    memory.extend(b"more")
    array = numpy.zeros(4096, dtype=numpy.uint8)
    gone = weakref.ref(array)
    registered = engine.register(array)
    del array
    gc.collect()
    assert gone() is not None
    registered.release()
    gc.collect()
    assert gone() is None


def test_a_dlpack_tensor_is_held_until_release(engine):
    array = numpy.zeros(4096, dtype=numpy.uint8)
    gone = weakref.ref(array)
    registered = engine.register(ByDlpack(array))
    del array
    gc.collect()
    assert gone() is not None
    registered.release()
    gc.collect()
    assert gone() is None


def test_what_cannot_be_written_or_has_gaps_is_refused(engine):
    wide = numpy.zeros((8, 8), dtype=numpy.int64)
    for memory in (b"bytes", memoryview(bytearray(8)).toreadonly(), wide[:, ::2]):
        with pytest.raises((BufferError, ValueError)):
            engine.register(memory)
    with pytest.raises(ValueError, match="gaps"):
        engine.register(ByDlpack(wide[:, ::2]))
    with pytest.raises(ValueError, match="gaps"):
        engine.register(ByPointer(4096, contiguous=False))
    with pytest.raises(ValueError, match="device 2"):
        engine.register(ByDlpack(wide, device=2))
    for memory in (5, "text", object()):
        with pytest.raises(TypeError):
            engine.register(memory)
    with pytest.raises(tent.AddressError):
        engine.register(bytearray())


def test_a_refused_registration_gives_the_memory_back(engine):
    memory = bytearray(4096)
    with pytest.raises(tent.EnumError):
        engine.register(memory, permission=9)
    memory.extend(b"more")


def test_options_of_memory_are_the_librarys_to_refuse(engine):
    for options in ({"location": "gpu"}, {"location": "c" * 64}, {"permission": 3}):
        with pytest.raises(tent.EnumError):
            engine.allocate(4096, **options)
    with pytest.raises(tent.AddressError):
        engine.allocate(0)


def test_allocated_memory_outlives_its_views(engine):
    memory = engine.allocate(4096)
    array = numpy.frombuffer(memory, dtype=numpy.uint8)
    with pytest.raises(BufferError):
        memory.release()
    with pytest.raises(BufferError):
        engine.close()
    array[:] = 7
    del array
    memory.release()
    with pytest.raises(ValueError):
        memory.address
    with pytest.raises(BufferError):
        memory.view()


def test_a_view_keeps_memory_and_engine(settings):
    view = tent.Engine(settings).allocate(4096).view()
    gc.collect()
    view[:] = CONTENT
    assert bytes(view) == CONTENT


def test_memory_of_a_closed_engine_cannot_be_seen(settings):
    engine = tent.Engine(settings)
    memory, registered = engine.allocate(4096), engine.register(bytearray(4096))
    engine.close()
    with pytest.raises(BufferError):
        memory.view()
    memory.release()
    registered.release()


def test_a_batch_keeps_what_its_requests_name(engine, pair):
    memory = engine.register(bytearray(4096))
    gone = weakref.ref(memory)
    with engine.allocate_batch(1) as batch:
        batch.submit(write(pair, target_offset=memory))
        del memory
        gc.collect()
        assert gone() is not None
        assert batch.wait().completed


def test_released_memory_is_no_longer_named(engine, pair):
    memory = engine.register(bytearray(4096))
    address = memory.address
    memory.release()
    memory.release()
    with engine.allocate_batch(1) as batch, pytest.raises(tent.AddressError):
        batch.submit(write(pair, target_offset=address))
