# SPDX-License-Identifier: Apache-2.0
"""The ring itself from Python, with no library of ours: docs/protocol.md in one page.

    python3 ring.py [SOCKET]

Attaches to a tentd, maps a ring and a buffer, writes a block within the buffer and
shows how the engine refuses a bad request. x86-64: there, stores are seen in the order
in which they were made; elsewhere publish() needs a release, and poll() an acquire.
"""
import ctypes
import mmap
import os
import socket
import struct
import sys

HELLO, RING_OPEN, MEM_ALLOC, MEM_REGISTER = 1, 2, 4, 6
HEAD, STATUS = struct.Struct("<IHHQ"), struct.Struct("<iIQ256s")
SLOT = struct.Struct("<QBBHIQ")  # from byte 8: user_data, op, 0, flags, cq_head, 0
REQUEST = struct.Struct("<IIiIQQQQiiQQiIQ")
COMPLETION = struct.Struct("<IHBBQQiIIIQIIIHBB")
HEADER = struct.Struct("<QHHIIIIIIIQQQQQQQ")
ADAPTIVE, CLIENT_FENCE = 1, 2
NEED_WAKE = 1
SYS_MEMBARRIER, REGISTER_GLOBAL_EXPEDITED = 324, 4


class Control:
    """The control socket: one request, one reply."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        libc = ctypes.CDLL(None)
        registered = libc.syscall(SYS_MEMBARRIER, REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0
        self.call(HELLO, struct.pack("<HHI128s", 1, 0, registered, b""), "<HHIQII128s")

    def call(self, kind, body, reply):
        """The fields from byte 288 on, and descriptors."""
        self.socket.send(HEAD.pack(HEAD.size + len(body), kind, 0, 0) + body)
        message, fds, _, _ = socket.recv_fds(self.socket, 4096, 4)
        error, rule, value, sentence = STATUS.unpack_from(message, HEAD.size)
        if error:
            raise OSError(sentence.split(b"\0")[0].decode())
        return struct.unpack_from(reply, message, HEAD.size + STATUS.size), fds


class Memory:
    """Shareable memory of the engine, mapped and registered."""

    def __init__(self, control, length):
        body = struct.pack("<Q64s", length, b"*")
        (buffer_id, self.length, _, _), (fd,) = control.call(MEM_ALLOC, body, "<QQIi")
        self.map = mmap.mmap(fd, self.length)
        os.close(fd)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        body = struct.pack(
            "<QQQQIiII64s", self.address, self.length, buffer_id, 0, 1, 0, 0, 0, b"*"
        )
        control.call(MEM_REGISTER, body, "")


class Ring:
    def __init__(self, control, slots=0):
        sizes, fds = control.call(RING_OPEN, struct.pack("<II", slots, 0), "<IIQQ")
        self.client = mmap.mmap(fds[0], sizes[2])
        self.engine = mmap.mmap(fds[1], sizes[3], prot=mmap.PROT_READ)
        self.wake_fd = fds[2]
        (
            _, major, _, self.features, _, first, self.slot_count, self.slot_stride,
            self.completion_count, self.completion_stride, _, self.slots, self.cells, _, _,
            self.line, self.completions,
        ) = HEADER.unpack_from(self.engine)
        assert major == 1
        self.tail = self.head = first  # positions: what was published, and reaped
        self.owed = 0  # completions that may still come, in credits

    def publish(self, requests, user_data=0):
        """A batch, judged all or none. Each request: fields of REQUEST, policy or None."""
        room = min(self.slot_count - self._unconsumed(), self.completion_count - self.owed)
        if len(requests) > room:
            raise BufferError(f"{len(requests)} requests; allowed: {room}")
        for i in reversed(range(len(requests))):
            self._fill(i, *requests[i], user_data + i)
            first = self._at(self.slots, self.slot_stride, self.tail + i, self.slot_count)
            seq, nr = (self.tail + i + 1) & 0xFFFFFFFF, 0 if i else len(requests)
            ctypes.c_uint64.from_buffer(self.client, first).value = nr << 32 | seq
        self.tail = (self.tail + len(requests)) & 0xFFFFFFFF
        self.owed += len(requests)
        asleep = self._engine_word(12) & NEED_WAKE
        if self.features & CLIENT_FENCE or self.features & ADAPTIVE and asleep:
            os.write(self.wake_fd, struct.pack("<Q", 1))  # a system call fences, too

    def poll(self):
        """The next completion as a tuple, or None."""
        at = self._at(self.completions, self.completion_stride, self.head, self.completion_count)
        if struct.unpack_from("@I", self.engine, at)[0] != (self.head + 1) & 0xFFFFFFFF:
            return None
        completion = COMPLETION.unpack_from(self.engine, at)
        self.head = (self.head + 1) & 0xFFFFFFFF
        self.owed -= completion[9]
        return completion

    def wait(self):
        while (completion := self.poll()) is None:
            os.sched_yield()
        return completion

    @staticmethod
    def _at(offset, stride, position, count):
        return offset + (position & 0xFFFFFFFF) % count * stride

    def _engine_word(self, offset):
        return struct.unpack_from("@I", self.engine, self.line + offset)[0]

    def _unconsumed(self):
        return (self.tail - self._engine_word(0)) & 0xFFFFFFFF

    def _fill(self, i, request, policy, user_data):
        position = self.tail + i
        slot = self._at(self.slots, self.slot_stride, position, self.slot_count)
        SLOT.pack_into(self.client, slot + 8, user_data, 0, 0, 0, 0 if i else self.head, 0)
        self.client[slot + 32 : slot + 128] = request + bytes(8)
        if policy is not None:
            cell = self._at(self.cells, 64, position, self.slot_count)
            self.client[cell : cell + len(policy)] = policy


def request(opcode, source, target, length, intent=0, policy=None):
    """Of this program's own segment; what is 0 at the end has its default."""
    fields = (88, 1, opcode, 0, source, 0, target, length, intent, 0, 0, len(policy or b""), 0, 0, 0)
    return REQUEST.pack(*fields), policy


def main(path):
    control = Control(path)
    memory, ring = Memory(control, 8192), Ring(control)
    memory.map[:10] = b"a KV block"
    ring.publish([request(1, memory.address, memory.address + 4096, 4096, intent=4)])
    completion = ring.wait()
    print(f"status {completion[2]}: {memory.map[4096:4106].decode()}")
    ring.publish([request(1, memory.address, memory.address + 4096, 4096, intent=99)])
    refusal = ring.wait()
    print(f"error {refusal[6]}, rule {refusal[14]}: {refusal[5]} is no intent")
    return completion[2] != 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "/run/tent/tentd.sock"))
