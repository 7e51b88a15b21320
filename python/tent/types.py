# SPDX-License-Identifier: Apache-2.0
"""What calls return, and what they take beside memory."""
from typing import List, NamedTuple, Optional

from . import _tent
from .enums import IntentType, Opcode, Priority, SegmentType, TaskFlags, TransportType


class BufferInfo(NamedTuple):
    base: int  # in the owner's address space
    length: int
    location: str


class SegmentInfo(NamedTuple):
    type: SegmentType
    buffers: List[BufferInfo]


class Range(NamedTuple):
    """Bytes of a segment, from Segment.range()."""

    segment: "_tent.Segment"
    offset: int  # memory: an address in one of its buffers; file: from its start
    length: int


class Transferred(NamedTuple):
    transferred_bytes: int
    flags: TaskFlags


class NormalizedIntent(NamedTuple):
    """What a request asks for, before addresses and policies are looked at."""

    opcode: Opcode
    intent_type: IntentType
    requested_priority: Priority
    deadline_ns: int
    policy_name: Optional[str]
    transport_hint: TransportType
    downgrades: TaskFlags  # what compat changed
