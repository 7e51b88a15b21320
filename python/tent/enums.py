# SPDX-License-Identifier: Apache-2.0
"""The numbers of tent.h as types. An unknown number is no member: ValueError."""
from enum import IntEnum, IntFlag

from . import _tent


class Opcode(IntEnum):
    READ = _tent.OPCODE_READ
    WRITE = _tent.OPCODE_WRITE


class IntentType(IntEnum):
    UNSPEC = _tent.INTENT_UNSPEC
    FOREGROUND_GET = _tent.INTENT_FOREGROUND_GET
    BACKGROUND_PREFETCH = _tent.INTENT_BACKGROUND_PREFETCH
    MIGRATION = _tent.INTENT_MIGRATION
    CHECKPOINT = _tent.INTENT_CHECKPOINT
    WEIGHT_LOADING = _tent.INTENT_WEIGHT_LOADING
    STAGING_INTERNAL = _tent.INTENT_STAGING_INTERNAL  # refused: the engine's own


class Priority(IntEnum):
    UNSPEC = _tent.PRIORITY_UNSPEC
    HIGH = _tent.PRIORITY_HIGH
    MEDIUM = _tent.PRIORITY_MEDIUM
    LOW = _tent.PRIORITY_LOW


RequestedPriority = Priority  # as the RFC calls it in places


class TransportType(IntEnum):
    UNSPEC = _tent.TRANSPORT_UNSPEC
    RDMA = _tent.TRANSPORT_RDMA
    MNNVL = _tent.TRANSPORT_MNNVL
    SHM = _tent.TRANSPORT_SHM
    NVLINK = _tent.TRANSPORT_NVLINK
    GDS = _tent.TRANSPORT_GDS
    IOURING = _tent.TRANSPORT_IOURING
    TCP = _tent.TRANSPORT_TCP
    ASCEND_DIRECT = _tent.TRANSPORT_ASCEND_DIRECT
    SUNRISE_LINK = _tent.TRANSPORT_SUNRISE_LINK
    TPU = _tent.TRANSPORT_TPU
    UB = _tent.TRANSPORT_UB
    MPCOMM = _tent.TRANSPORT_MPCOMM


class Permission(IntEnum):
    LOCAL_READ_WRITE = _tent.PERM_LOCAL_READ_WRITE
    GLOBAL_READ_ONLY = _tent.PERM_GLOBAL_READ_ONLY
    GLOBAL_READ_WRITE = _tent.PERM_GLOBAL_READ_WRITE


class SegmentType(IntEnum):
    MEMORY = _tent.SEGMENT_MEMORY
    FILE = _tent.SEGMENT_FILE


class TaskState(IntEnum):
    WAITING = _tent.STATUS_WAITING
    PENDING = _tent.STATUS_PENDING
    INVALID = _tent.STATUS_INVALID
    CANCELED = _tent.STATUS_CANCELED
    COMPLETED = _tent.STATUS_COMPLETED
    TIMEOUT = _tent.STATUS_TIMEOUT
    FAILED = _tent.STATUS_FAILED


class ValidationMode(IntEnum):
    STRICT = _tent.VALIDATION_STRICT
    COMPAT = _tent.VALIDATION_COMPAT


class ErrorCode(IntEnum):
    ARGUMENTS = _tent.ERR_ARGUMENTS
    SCHEMA = _tent.ERR_SCHEMA
    LAYOUT = _tent.ERR_LAYOUT
    ENUM = _tent.ERR_ENUM
    FLAGS = _tent.ERR_FLAGS
    POLICY_UNKNOWN = _tent.ERR_POLICY_UNKNOWN
    POLICY_DENIED = _tent.ERR_POLICY_DENIED
    DEADLINE = _tent.ERR_DEADLINE
    UNSUPPORTED = _tent.ERR_UNSUPPORTED
    ADDRESS = _tent.ERR_ADDRESS
    TRANSPORT = _tent.ERR_TRANSPORT
    CAPACITY = _tent.ERR_CAPACITY
    STALE_HANDLE = _tent.ERR_STALE_HANDLE
    PEER_UNREACHABLE = _tent.ERR_PEER_UNREACHABLE
    ENGINE_LOST = _tent.ERR_ENGINE_LOST
    RUNTIME = _tent.ERR_RUNTIME
    CANCELED = _tent.ERR_CANCELED
    TIMEOUT = _tent.ERR_TIMEOUT
    OWNER_GONE = _tent.ERR_OWNER_GONE
    PROTOCOL = _tent.ERR_PROTOCOL
    CONFIG = _tent.ERR_CONFIG


class TaskFlags(IntFlag):
    """How a request ended, beside its state."""

    INTENT_DOWNGRADED = _tent.CQE_F_INTENT_DOWNGRADED
    PRIORITY_DOWNGRADED = _tent.CQE_F_PRIORITY_DOWNGRADED
    POLICY_DOWNGRADED = _tent.CQE_F_POLICY_DOWNGRADED
    TAIL_IGNORED = _tent.CQE_F_TAIL_IGNORED
    DEADLINE_MISSED = _tent.CQE_F_DEADLINE_MISSED
    TARGET_UNFENCED = _tent.CQE_F_TARGET_UNFENCED
    FAILED_OVER = _tent.CQE_F_FAILED_OVER
