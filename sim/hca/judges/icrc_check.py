#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the ICRC of every RoCE v2 packet in a capture, with zlib and nothing of ours.

usage: icrc_check.py FILE.pcap

Reads pcap (not pcapng) of Ethernet, Linux cooked or raw IP frames; IPv4 and IPv6. Exits 1
if there is a packet with a wrong ICRC, or none at all.
"""
import struct
import sys
import zlib

ROCE_PORT = 4791
UDP = 17
MAGICS = {0xA1B2C3D4: 1, 0xA1B23C4D: 1}  # microseconds, nanoseconds


def frames(data):
    """Yields (link type, bytes) of each whole frame."""
    for order in "<>":
        magic, = struct.unpack_from(order + "I", data)
        if magic in MAGICS:
            break
    else:
        sys.exit("not a pcap file")
    link, = struct.unpack_from(order + "I", data, 20)
    at = 24
    while at + 16 <= len(data):
        _, _, kept, was = struct.unpack_from(order + "IIII", data, at)
        at += 16
        if kept != was:
            sys.exit(f"a frame of {was} bytes was cut to {kept}")
        yield link, data[at:at + kept]
        at += kept


def ip_packet(link, frame):
    """What lies behind the link header, or None if it is not IP."""
    if link == 1:  # Ethernet
        kind, = struct.unpack_from(">H", frame, 12)
        skip = 14
        if kind == 0x8100:
            kind, = struct.unpack_from(">H", frame, 16)
            skip = 18
    elif link == 113:  # Linux cooked
        kind, = struct.unpack_from(">H", frame, 14)
        skip = 16
    elif link == 276:  # Linux cooked, version 2
        kind, = struct.unpack_from(">H", frame, 0)
        skip = 20
    elif link in (12, 101):
        kind, skip = (0x86DD if frame[0] >> 4 == 6 else 0x0800), 0
    else:
        sys.exit(f"link type {link} is not known here")
    return frame[skip:] if kind in (0x0800, 0x86DD) else None


def split(packet):
    """(IP header, UDP header, payload) or None if it is not RoCE v2."""
    if packet[0] >> 4 == 4:
        header = (packet[0] & 15) * 4
        total, = struct.unpack_from(">H", packet, 2)
        protocol = packet[9]
    else:
        header = 40
        total = 40 + struct.unpack_from(">H", packet, 4)[0]
        protocol = packet[6]
    if protocol != UDP or total > len(packet):
        return None
    port, = struct.unpack_from(">H", packet, header + 2)
    if port != ROCE_PORT:
        return None
    return packet[:header], packet[header:header + 8], packet[header + 8:total]


def masked(ip, udp, payload):
    """The bytes that the ICRC covers, with ones for what routers change."""
    ip, udp, payload = bytearray(ip), bytearray(udp), bytearray(payload)
    if ip[0] >> 4 == 4:
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
    else:
        ip[0] |= 0x0F
        ip[1] = ip[2] = ip[3] = ip[7] = 0xFF
    udp[6] = udp[7] = 0xFF
    payload[4] = 0xFF
    return b"\xff" * 8 + bytes(ip + udp + payload[:-4])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    good = bad = 0
    for number, (link, frame) in enumerate(frames(data), 1):
        packet = ip_packet(link, frame)
        parts = packet and split(packet)
        if not parts:
            continue
        payload = parts[2]
        expected = zlib.crc32(masked(*parts))
        found = struct.unpack("<I", payload[-4:])[0] if len(payload) >= 16 else None
        if found == expected:
            good += 1
            continue
        bad += 1
        if bad <= 10:
            print(f"frame {number}: ICRC {found}, should be {expected}")
    print(f"icrc_check: {good} right, {bad} wrong")
    sys.exit(1 if bad or not good else 0)


main()
