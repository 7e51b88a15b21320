# SPDX-License-Identifier: Apache-2.0
"""The stubs declare what the module has, no more and no less."""
import ast
import pathlib

import tent
from tent import _tent

STUB = ast.parse((pathlib.Path(tent.__file__).parent / "_tent.pyi").read_text())


def public(names):
    return {n for n in names if not n.startswith("_") or n in ("__len__", "__enter__", "__exit__")}


def declared(body):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id


def test_the_stub_names_what_the_module_has():
    assert public(declared(STUB.body)) == public(vars(_tent))


def test_the_stub_names_what_each_class_has():
    for node in STUB.body:
        if isinstance(node, ast.ClassDef):
            members = vars(getattr(_tent, node.name))
            assert public(declared(node.body)) == public(members), node.name


def test_the_package_is_marked_as_typed():
    assert (pathlib.Path(tent.__file__).parent / "py.typed").exists()
