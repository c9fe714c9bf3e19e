"""A step and an operation have all of their parts, or they cannot be made. Each word of the language has its step."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import headwater.compiler.operations
from headwater.compiler.operations import STEPS
from headwater.compiler.operations.base.context import StepAction
from headwater.compiler.operations.base.operation import EitherOperation, Operation, PythonOperation, SqlOperation
from headwater.compiler.topology import connections

SCHEMA = Path(headwater.compiler.operations.__path__[0]).parents[1] / "schemas" / "topology.json"


def below(kind: type) -> Iterator[type]:
    """Every class that inherits from another, as far as the compiler has it."""
    for each in kind.__subclasses__():
        if each.__module__.startswith("headwater."):
            yield each
        yield from below(each)


def defined(kind: type) -> list[type]:
    """The classes of a kind that stand in the modules of operations, or of what is between flows."""
    package = headwater.compiler.operations
    names = [module.name for module in walk_packages(package.__path__, f"{package.__name__}.")]
    modules = {import_module(name).__name__ for name in names if ".base" not in name} | {connections.__name__}
    found = {each for each in below(kind) if each.__module__ in modules}
    return sorted(found, key=lambda each: each.__name__)


@pytest.mark.parametrize("operation", defined(Operation), ids=lambda operation: operation.__name__)
def test_operation_has_every_part(operation: type[Operation]) -> None:
    assert not inspect.isabstract(operation), f"{operation.__name__} lacks {sorted(operation.__abstractmethods__)}"
    assert dataclasses.is_dataclass(operation)
    assert sum(issubclass(operation, kind) for kind in (PythonOperation, SqlOperation, EitherOperation)) == 1


def test_operation_without_a_part_cannot_be_made() -> None:
    class Halving(SqlOperation):
        has_effect = False

    with pytest.raises(TypeError, match=r"in_sql.*null_keys"):
        Halving()  # type: ignore[abstract]


@pytest.mark.parametrize("step", defined(StepAction), ids=lambda step: step.__name__)
def test_step_has_every_part_and_a_word(step: type[StepAction]) -> None:
    assert not inspect.isabstract(step), f"{step.__name__} lacks {sorted(step.__abstractmethods__)}"
    assert dataclasses.is_dataclass(step)
    words = {kind for each in STEPS.values() for kind in (each, *each.kinds)}
    assert step in words, f"No word of the language is {step.__name__}: list it in STEPS, or in `kinds` of one there"


def test_words_of_steps_are_those_of_the_schema() -> None:
    step = json.loads(SCHEMA.read_text())["definitions"]["step_object"]
    assert set(step["properties"]) - {"name", "was", "description", "tags", "meta"} == STEPS.keys()
