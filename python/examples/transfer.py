# SPDX-License-Identifier: Apache-2.0
"""The Python API in one page: with an engine thread, or through a tentd with
TENT_ENGINE=unix:/path."""
import tent

with tent.Engine() as engine, engine.allocate(4096) as block:
    with block.view() as view:
        view[:10] = b"a KV block"
    copy = bytearray(4096)  # or a numpy array, or a tensor
    moved = tent.transfer(
        block,
        copy,
        intent_type=tent.IntentType.CHECKPOINT,
        deadline_ns=tent.deadline_after_ns(50_000_000),
    )
    print(f"{moved.transferred_bytes} bytes: {copy[:10].decode()}")
