# SPDX-License-Identifier: Apache-2.0
"""Engine: what tent._tent has, with settings as Python has them, and whole transfers."""
import asyncio
import json
import weakref
from typing import Any, Mapping, Optional

from . import _tent
from .errors import TimeoutError
from .transfers import Transfer, Waiter, intent_of
from .types import Range, Transferred


class Engine(_tent.Engine):
    """An engine with these settings (tent.conf(5)): {"engine": "caller"}, or none for
    a thread of this process; TENT_ENGINE has precedence. A context manager."""

    def __init__(
        self, settings: Optional[Mapping[str, Any]] = None, *, config_file: Optional[str] = None
    ):
        texts = [
            (key, value if isinstance(value, str) else json.dumps(value))
            for key, value in (settings or {}).items()
        ]
        super().__init__(texts, config_file)
        self._batches: "weakref.WeakSet[_tent.Batch]" = weakref.WeakSet()
        self._waiters: "weakref.WeakKeyDictionary[Any, Waiter]" = weakref.WeakKeyDictionary()

    def allocate_batch(self, size: int) -> _tent.Batch:
        batch = super().allocate_batch(size)
        self._batches.add(batch)
        return batch

    def transfer(
        self, src: Any, dst: Any, *, timeout: Optional[float] = None, **intent: Any
    ) -> Transferred:
        """Moves the bytes of src to dst and returns when they are there.

        One of both may be a Range of a segment; the others are Buffers, or objects whose
        memory register() takes. intent: intent_type, requested_priority, deadline_ns,
        policy_name, transport_hint, flags. After timeout seconds it is canceled.
        """
        with Transfer(self, src, dst, intent_of(**intent)) as t:
            if not t.batch.wait(timeout).ended:
                raise TimeoutError(f"the transfer had not ended after {timeout} s")
            return t.result()

    async def transfer_async(self, src: Any, dst: Any, **intent: Any) -> Transferred:
        """The same for asyncio; canceling it cancels the transfer."""
        with Transfer(self, src, dst, intent_of(**intent)) as t:
            await self.wait(t.batch)
            return t.result()

    async def wait(self, batch: _tent.Batch) -> _tent.TaskStatus:
        """Until all requests of a batch ended, which this thread submitted."""
        loop = asyncio.get_running_loop()
        if loop not in self._waiters:
            self._waiters[loop] = Waiter(self, self._batches, loop)
        return await self._waiters[loop].wait(batch)


def transfer(
    src: Any, dst: Any, *, engine: Optional[Engine] = None, timeout: Optional[float] = None, **intent: Any
) -> Transferred:
    """Engine.transfer() of the engine that one of both ends belongs to, or of engine."""
    for end in (src, dst):
        if engine is None and isinstance(end, Range):
            engine = end.segment.engine
        elif engine is None and isinstance(end, _tent.Buffer):
            engine = end.engine
    if engine is None:
        raise TypeError("neither src nor dst belongs to an engine: say engine=")
    return engine.transfer(src, dst, timeout=timeout, **intent)
