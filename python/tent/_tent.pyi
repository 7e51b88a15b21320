# SPDX-License-Identifier: Apache-2.0
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from .engine import Engine as _Engine
from .enums import IntentType, Opcode, Priority, SegmentType, TaskState, TransportType
from .errors import Error
from .types import Range, SegmentInfo

OPCODE_READ: int
OPCODE_WRITE: int
INTENT_UNSPEC: int
INTENT_FOREGROUND_GET: int
INTENT_BACKGROUND_PREFETCH: int
INTENT_MIGRATION: int
INTENT_CHECKPOINT: int
INTENT_WEIGHT_LOADING: int
INTENT_STAGING_INTERNAL: int
PRIORITY_UNSPEC: int
PRIORITY_HIGH: int
PRIORITY_MEDIUM: int
PRIORITY_LOW: int
TRANSPORT_UNSPEC: int
TRANSPORT_RDMA: int
TRANSPORT_MNNVL: int
TRANSPORT_SHM: int
TRANSPORT_NVLINK: int
TRANSPORT_GDS: int
TRANSPORT_IOURING: int
TRANSPORT_TCP: int
TRANSPORT_ASCEND_DIRECT: int
TRANSPORT_SUNRISE_LINK: int
TRANSPORT_TPU: int
TRANSPORT_UB: int
TRANSPORT_MPCOMM: int
PERM_LOCAL_READ_WRITE: int
PERM_GLOBAL_READ_ONLY: int
PERM_GLOBAL_READ_WRITE: int
SEGMENT_MEMORY: int
SEGMENT_FILE: int
STATUS_WAITING: int
STATUS_PENDING: int
STATUS_INVALID: int
STATUS_CANCELED: int
STATUS_COMPLETED: int
STATUS_TIMEOUT: int
STATUS_FAILED: int
VALIDATION_STRICT: int
VALIDATION_COMPAT: int
ERR_ARGUMENTS: int
ERR_SCHEMA: int
ERR_LAYOUT: int
ERR_ENUM: int
ERR_FLAGS: int
ERR_POLICY_UNKNOWN: int
ERR_POLICY_DENIED: int
ERR_DEADLINE: int
ERR_UNSUPPORTED: int
ERR_ADDRESS: int
ERR_TRANSPORT: int
ERR_CAPACITY: int
ERR_STALE_HANDLE: int
ERR_PEER_UNREACHABLE: int
ERR_ENGINE_LOST: int
ERR_RUNTIME: int
ERR_CANCELED: int
ERR_TIMEOUT: int
ERR_OWNER_GONE: int
ERR_PROTOCOL: int
ERR_CONFIG: int
CQE_F_INTENT_DOWNGRADED: int
CQE_F_PRIORITY_DOWNGRADED: int
CQE_F_POLICY_DOWNGRADED: int
CQE_F_TAIL_IGNORED: int
CQE_F_DEADLINE_MISSED: int
CQE_F_TARGET_UNFENCED: int
CQE_F_FAILED_OVER: int

class Buffer:
    """Registered memory; a writable buffer itself. A context manager."""

    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def engine(self) -> _Engine: ...
    def __len__(self) -> int: ...
    def view(self) -> memoryview: ...
    def release(self) -> None: ...
    def __enter__(self) -> Buffer: ...
    def __exit__(self, *exception: Any) -> None: ...

class Segment:
    """An open segment. A context manager."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def engine(self) -> _Engine: ...
    def info(self) -> SegmentInfo: ...
    def connect(self, timeout_ns: int = 0) -> None: ...
    def range(self, offset: int, length: int) -> Range: ...
    def close(self) -> None: ...
    def __enter__(self) -> Segment: ...
    def __exit__(self, *exception: Any) -> None: ...

class Request:
    def __init__(
        self,
        *,
        opcode: Opcode = ...,
        source: Union[int, Buffer] = ...,
        target_id: Union[int, Segment] = ...,
        target_offset: Union[int, Buffer] = ...,
        length: int = ...,
        intent_type: IntentType = ...,
        requested_priority: Priority = ...,
        deadline_ns: int = ...,
        policy_name: Optional[str] = ...,
        transport_hint: TransportType = ...,
        flags: int = ...,
    ) -> None: ...
    @property
    def opcode(self) -> Opcode: ...
    @property
    def source(self) -> int: ...
    @property
    def target_id(self) -> int: ...
    @property
    def target_offset(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def intent_type(self) -> IntentType: ...
    @property
    def requested_priority(self) -> Priority: ...
    @property
    def deadline_ns(self) -> int: ...
    @property
    def policy_name(self) -> Optional[str]: ...
    @property
    def transport_hint(self) -> TransportType: ...
    @property
    def flags(self) -> int: ...

Requests = Union[Request, Mapping[str, Any], Iterable[Union[Request, Mapping[str, Any]]]]

class TaskStatus:
    @property
    def state(self) -> TaskState: ...
    @property
    def transferred_bytes(self) -> int: ...
    @property
    def ended(self) -> bool: ...
    @property
    def completed(self) -> bool: ...

class Batch:
    """Requests that are submitted all or none, and end one by one. A context manager."""

    @property
    def id(self) -> int: ...
    def submit(
        self,
        requests: Requests,
        notification: Optional[Tuple[Union[str, bytes], Union[str, bytes]]] = None,
    ) -> None: ...
    def status(self) -> TaskStatus: ...
    def task_status(self, task: int) -> TaskStatus: ...
    def error(self, task: int) -> Tuple[Optional[Error], int]: ...
    def cancel(self, task: int) -> None: ...
    def wait(self, timeout: Optional[float] = None) -> TaskStatus: ...
    def raise_failure(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Batch: ...
    def __exit__(self, *exception: Any) -> None: ...

class Engine:
    def __init__(self, settings: List[Tuple[str, str]], config_file: Optional[str]) -> None: ...
    def check(self) -> None: ...
    def segment_name(self) -> str: ...
    def open_segment(self, name: str = "") -> Segment: ...
    def allocate_batch(self, size: int) -> Batch: ...
    def explain(self, requests: Requests) -> Dict[str, Any]: ...
    def notify(
        self, target: int, name: Union[str, bytes], message: Union[str, bytes]
    ) -> None: ...
    def notifications(self) -> List[Tuple[bytes, bytes]]: ...
    def completion_fd(self) -> int: ...
    def allocate(
        self, size: int, *, location: str = "*", permission: int = ..., internal: bool = False
    ) -> Buffer: ...
    def register(
        self,
        memory: Any,
        size: Optional[int] = None,
        *,
        location: str = "*",
        permission: int = ...,
        internal: bool = False,
    ) -> Buffer: ...
    def close(self) -> None: ...
    def __enter__(self) -> Engine: ...
    def __exit__(self, *exception: Any) -> None: ...

def normalize(request: Union[Request, Mapping[str, Any]], mode: int = ...) -> Dict[str, Any]: ...
def api_version() -> int: ...
def monotonic_now_ns() -> int: ...
def deadline_after_ns(budget_ns: int) -> int: ...
