"""An operation has all of its parts, or it cannot be made."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

import pytest

import headwater.compiler.operations
from headwater.compiler.operations.base.operation import (
    EitherOperation,
    Lookup,
    Operation,
    PythonOperation,
    SqlOperation,
)
from headwater.compiler.topology import connections

KINDS = {Operation, PythonOperation, SqlOperation, EitherOperation, Lookup}


def all_below(kind: type) -> Iterator[type]:
    """A class and everything that inherits from it."""
    yield kind
    for below in kind.__subclasses__():
        yield from all_below(below)


def operations() -> list[type[Operation]]:
    names = [
        f"headwater.compiler.operations.{module.name}"
        for module in iter_modules(headwater.compiler.operations.__path__)
    ]
    modules = {connections.__name__, *(import_module(name).__name__ for name in names)}
    found = {each for each in all_below(Operation) if each.__module__ in modules} - KINDS
    return sorted(found, key=lambda each: each.__name__)


@pytest.mark.parametrize("operation", operations(), ids=lambda operation: operation.__name__)
def test_operation_has_every_part(operation: type[Operation]) -> None:
    assert not inspect.isabstract(operation), f"{operation.__name__} lacks {sorted(operation.__abstractmethods__)}"
    assert dataclasses.is_dataclass(operation)
    assert sum(issubclass(operation, kind) for kind in (PythonOperation, SqlOperation, EitherOperation)) == 1


def test_operation_without_a_part_cannot_be_made() -> None:
    class Halving(SqlOperation):
        has_effect = False
        null_keys = "passed"

    with pytest.raises(TypeError, match=r"describe.*in_sql.*needs.*table_use"):
        Halving()  # type: ignore[abstract]
