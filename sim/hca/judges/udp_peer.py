#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What plain UDP does on this machine's loopback, to compare a simulation with.

udp_peer.py rate   MB/s that arrive of large sends which the kernel cuts into packets (GSO)
udp_peer.py round  microseconds of a small datagram's round trip, both sides spinning
"""
import os
import socket
import sys
import time

SEGMENT = 4096 + 58  # a RoCE v2 packet of the largest MTU
BATCH = SEGMENT * 15  # what fits in one send
SECONDS = 0.7
ROUNDS = 3000
UDP_SEGMENT, UDP_GRO = 103, 104


def udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    s.bind(("127.0.0.1", 0))
    return s


def in_child(function):
    pid = os.fork()
    if not pid:
        function()
        os._exit(0)
    return pid


def rate():
    receiver, sender = udp(), udp()
    receiver.setsockopt(socket.SOL_UDP, UDP_GRO, 1)
    sender.setsockopt(socket.SOL_UDP, UDP_SEGMENT, SEGMENT)
    sender.connect(receiver.getsockname())
    end = time.monotonic() + SECONDS

    def send():
        data = bytes(BATCH)
        while time.monotonic() < end:
            sender.send(data)

    child = in_child(send)
    buffer, got, last = bytearray(1 << 16), 0, 0.0
    receiver.settimeout(0.2)
    begin = time.monotonic()
    try:
        while True:
            got += receiver.recv_into(buffer)
            last = time.monotonic()
    except TimeoutError:
        pass
    os.waitpid(child, 0)
    print(f"{got / (last - begin) / 1e6:.0f}")


def round_trip():
    near, far = udp(), udp()
    near.connect(far.getsockname())
    far.connect(near.getsockname())
    near.setblocking(False)
    far.setblocking(False)

    def take(s):
        while True:
            try:
                return s.recv(64)
            except BlockingIOError:
                pass

    def echo():
        for _ in range(ROUNDS):
            far.send(take(far))

    child = in_child(echo)
    times = []
    for _ in range(ROUNDS):
        begin = time.monotonic_ns()
        near.send(b"8 bytes.")
        take(near)
        times.append(time.monotonic_ns() - begin)
    os.waitpid(child, 0)
    print(f"{sorted(times)[ROUNDS // 2] / 1000:.1f}")


{"rate": rate, "round": round_trip}[sys.argv[1]]()
