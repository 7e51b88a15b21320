#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole transfers, said in one call: transfer(src, dst, intent_type=..., ...)."""
import door
import tent


def ends(scene, entry, now):
    """What transfer() takes, and the request that it stands for."""
    near = scene.near
    fields = scene.fields(entry, now)
    opcode = fields.pop("opcode", tent.Opcode.WRITE)
    offset = fields.pop("target_offset", scene.b.address)
    far = scene.own.range(offset, door.LENGTH)
    src, dst = (near, far) if opcode == tent.Opcode.WRITE else (far, near)
    request = {
        "opcode": opcode,
        "source": near.address,
        "target_offset": offset,
        "length": door.LENGTH,
        **fields,
    }
    return src, dst, fields, request


def ask(scene, row, now):
    src, dst, intent, request = ends(scene, row["entry"], now)
    try:
        moved = tent.transfer(src, dst, **intent)
    except tent.Error as error:
        return door.refused(error)
    explained = scene.engine.explain(request)
    answer = {
        **door.ended("completed", moved.flags),
        "normalized": door.normalized(request, row["entry"], door.mode_of(explained)),
        "effective": door.effective(explained["entries"][0]),
    }
    return door.differing({"entries": [answer]}, explained)


class Scene(door.Scene):
    def __init__(self, file):
        super().__init__(file)
        self.near = self.engine.allocate(door.LENGTH)
        self.own = self.engine.open_segment()


door.main(ask, Scene)
