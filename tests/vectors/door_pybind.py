#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests and batches of the Python module."""
import door
import tent


def request_of(scene, entry, now):
    base = {
        "opcode": tent.Opcode.WRITE,
        "source": scene.a.address,
        "target_offset": scene.b.address,
        "length": door.LENGTH,
    }
    return {**base, **scene.fields(entry, now)}


def accepted(scene, batch, entries, requests, explained):
    batch.wait()
    answers = []
    for i, (entry, request) in enumerate(zip(entries, requests)):
        error, flags = batch.error(i)
        answers.append(
            {
                **door.ended(batch.task_status(i).state.name.lower(), flags, error),
                "normalized": door.normalized(request, entry, door.mode_of(explained)),
                "effective": door.effective(explained["entries"][i]),
            }
        )
    return door.differing({"entries": answers}, explained)


def ask(scene, row, now):
    entries = door.entries_of(row)
    requests = [request_of(scene, entry, now) for entry in entries]
    with scene.engine.allocate_batch(64) as batch:
        try:
            batch.submit(requests)
        except tent.Error as error:
            return refused(scene, requests, error)
        return accepted(scene, batch, entries, requests, scene.engine.explain(requests))


def refused(scene, requests, error):
    """explain() has no other requests than submit(): what is no request is refused there."""
    try:
        explained = scene.engine.explain(requests)
    except tent.Error as same:
        answer = door.refused(error)
        return answer if door.refused(same) == answer else {**answer, "explain says": str(same)}
    return door.differing(door.refused(error), explained, error)


door.main(ask)
