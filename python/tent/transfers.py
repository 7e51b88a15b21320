# SPDX-License-Identifier: Apache-2.0
"""Transfers said in one call: from where, to where, and what for.

An end is a range of a segment, or memory of this program. Both ends become one request,
which the engine alone judges.
"""
import asyncio
import weakref
from typing import Any, Callable, Dict, List, Optional

from . import _tent
from .enums import IntentType, Opcode, Priority, TaskFlags, TransportType
from .errors import Error
from .types import Range, Transferred


class Transfer:
    """One request in a batch of its own, and the memory it uses. A context manager."""

    batch: _tent.Batch

    def __init__(self, engine: _tent.Engine, src: Any, dst: Any, intent: Dict[str, Any]):
        if isinstance(src, Range) and isinstance(dst, Range):
            raise TypeError("one end of a transfer is memory of this program")
        self._engine = engine
        self._registered: List[_tent.Buffer] = []
        self.batch = engine.allocate_batch(1)
        try:
            self.batch.submit(self._request(src, dst, intent))
        except BaseException:
            self.close()
            raise

    def _buffer(self, end: Any) -> _tent.Buffer:
        """Memory that is not registered is, as long as the transfer takes."""
        if isinstance(end, _tent.Buffer):
            return end
        self._registered.append(self._engine.register(end))
        return self._registered[-1]

    def _request(self, src: Any, dst: Any, intent: Dict[str, Any]) -> _tent.Request:
        opcode = Opcode.READ if isinstance(src, Range) else Opcode.WRITE
        near, far = (dst, src) if opcode is Opcode.READ else (src, dst)
        source = self._buffer(near)
        if isinstance(far, Range):
            segment, offset, length = far
            target: Dict[str, Any] = {"target_id": segment, "target_offset": offset}
        else:
            buffer = self._buffer(far)
            target, length = {"target_offset": buffer}, len(buffer)
        if length != len(source):
            raise ValueError(f"{len(source)} bytes here and {length} there; allowed: as many")
        return _tent.Request(opcode=opcode, source=source, length=length, **target, **intent)

    def result(self) -> Transferred:
        """After its end: what it moved, or the exception that says why not."""
        failure, flags = self.batch.error(0)
        if failure is not None:
            raise failure
        return Transferred(self.batch.status().transferred_bytes, TaskFlags(flags))

    def close(self) -> None:
        """Gives back what it holds. A transfer that still runs is canceled first, and has
        ended when this returns."""
        if not self.batch.status().ended:
            self.batch.cancel(0)
            self.batch.wait()
        self.batch.close()
        while self._registered:
            self._registered.pop().release()

    def __enter__(self) -> "Transfer":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def intent_of(
    intent_type: IntentType = IntentType.UNSPEC,
    requested_priority: Priority = Priority.UNSPEC,
    deadline_ns: int = 0,
    policy_name: Optional[str] = None,
    transport_hint: TransportType = TransportType.UNSPEC,
    flags: int = 0,
) -> Dict[str, Any]:
    return locals()


class Waiter:
    """Wakes coroutines of one event loop when batches of one engine end.

    The completion descriptor is that of the thread that submits: batches that are waited
    for here were submitted in the loop's thread.
    """

    def __init__(
        self,
        engine: _tent.Engine,
        batches: "weakref.WeakSet[_tent.Batch]",
        loop: asyncio.AbstractEventLoop,
    ):
        self._loop = loop
        self._fd = engine.completion_fd()
        self._batches = batches
        self._waiting: Dict["asyncio.Future[_tent.TaskStatus]", _tent.Batch] = {}

    def _look(self) -> None:
        """The descriptor falls silent when every batch has been looked at, also those that
        nobody waits for."""
        for batch in list(self._batches):
            try:
                status = batch.status()
            except Error as error:  # closed, or its engine is
                self._tell(batch, lambda future: future.set_exception(error))
            else:
                if status.ended:
                    self._tell(batch, lambda future: future.set_result(status))

    def _tell(self, batch: _tent.Batch, tell: Callable[["asyncio.Future[_tent.TaskStatus]"], None]) -> None:
        for future, waited in self._waiting.items():
            if waited is batch and not future.done():
                tell(future)

    async def wait(self, batch: _tent.Batch) -> _tent.TaskStatus:
        if not self._waiting:
            self._loop.add_reader(self._fd, self._look)
        future: "asyncio.Future[_tent.TaskStatus]" = self._loop.create_future()
        self._waiting[future] = batch
        try:
            self._look()  # it may have ended before anybody waited
            return await future
        finally:
            del self._waiting[future]
            if not self._waiting:
                self._loop.remove_reader(self._fd)
