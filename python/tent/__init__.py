# SPDX-License-Identifier: Apache-2.0
"""The Transfer Intent API, version 1: tent.h for Python.

    import tent

    with tent.Engine() as engine, engine.allocate(4096) as block:
        copy = bytearray(4096)
        tent.transfer(block, copy, intent_type=tent.IntentType.CHECKPOINT)

Nothing here judges a request: what the library says of it is raised, as the exception
of its category, with index, field and sentence. Whatever can block runs without the
interpreter's lock. tent(7) says what the fields mean.
"""
from typing import Any, Mapping, Union

from . import _tent
from ._tent import (
    Batch,
    Buffer,
    Request,
    Segment,
    TaskStatus,
    api_version,
    deadline_after_ns,
    monotonic_now_ns,
)
from .engine import Engine, transfer
from .enums import (
    ErrorCode,
    IntentType,
    Opcode,
    Permission,
    Priority,
    RequestedPriority,
    SegmentType,
    TaskFlags,
    TaskState,
    TransportType,
    ValidationMode,
)
from .errors import (
    AddressError,
    ArgumentsError,
    CanceledError,
    CapacityError,
    ConfigError,
    DeadlineError,
    EngineLostError,
    EnumError,
    Error,
    FlagsError,
    LayoutError,
    OwnerGoneError,
    PeerUnreachableError,
    PolicyDeniedError,
    PolicyUnknownError,
    ProtocolError,
    RuntimeFailedError,
    SchemaError,
    StaleHandleError,
    TimeoutError,
    TransportError,
    UnsupportedError,
)
from .types import BufferInfo, NormalizedIntent, Range, SegmentInfo, Transferred

LOCAL_SEGMENT = 0


def normalize(
    request: Union[Request, Mapping[str, Any]], mode: ValidationMode = ValidationMode.STRICT
) -> NormalizedIntent:
    """What every engine in this mode takes the request for. A mapping of fields may hold
    numbers that no member has: a Request may not."""
    fields = _tent.normalize(request, int(mode))
    fields["downgrades"] = TaskFlags(fields["downgrades"])
    return NormalizedIntent(**fields)
