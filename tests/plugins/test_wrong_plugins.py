"""Plugins that are wrong in ways of their own: each is told in a sentence, and none ends the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.plugins.errors import InvalidPluginError, PluginImportError
from headwater.plugins.manager import PluginManager

Load = Callable[..., PluginManager]


def registering(arguments: str) -> str:
    return f"@hookimpl\ndef headwater_register_assignors(register):\n    register({arguments})"


def test_module_that_ends_the_process_is_an_import_that_failed(load: Load) -> None:
    with pytest.raises(PluginImportError, match=r"plugin bad cannot be imported: SystemExit \(.*bad\.py:2\)"):
        load({"bad": "raise SystemExit"})


def test_import_that_failed_is_told_with_its_place(load: Load) -> None:
    with pytest.raises(PluginImportError, match=r"ZeroDivisionError: division by zero \(.*plugins.bad\.py:3\)"):
        load({"plugins.bad": "x = 1\nx / 0"})


@pytest.mark.parametrize(
    "fault", ["1 / 0", "raise SystemExit(0)", "raise GeneratorExit", "raise KeyboardInterrupt", "register('x')"]
)
def test_hook_that_fails_is_told_with_its_place(load: Load, fault: str) -> None:
    manager = load({"bad": f"@hookimpl\ndef headwater_register_assignors(register):\n    {fault}"})

    with pytest.raises(InvalidPluginError, match=r"a plugin fails in headwater_register_assignors: .*bad\.py:4\)"):
        _ = manager.assignors


@pytest.mark.parametrize("name", ["3", "''", "None"])
def test_name_that_is_none_is_refused(load: Load, name: str) -> None:
    manager = load({"bad": registering(f"{name}, object")})

    with pytest.raises(InvalidPluginError, match="which is no name"):
        _ = manager.assignors


@pytest.mark.parametrize("schema", ["[1]", "'x'", "True", "False"])
def test_schema_that_is_no_object_is_refused(load: Load, schema: str) -> None:
    manager = load({"bad": registering(f"'x', object, {schema}")})

    with pytest.raises(InvalidPluginError, match="options schema of assignor 'x' is no JSON Schema: it is"):
        _ = manager.assignors


def test_schema_that_refers_to_nothing_is_refused(load: Load) -> None:
    manager = load({"bad": registering("'x', object, {'$ref': '#/definitions/absent'}")})

    with pytest.raises(InvalidPluginError, match="is no JSON Schema: there is no /definitions/absent"):
        manager.assignors.create("x")


def test_factory_whose_module_fails_is_refused_when_used(load: Load, tmp_path: Path) -> None:
    manager = load({"bad": registering("'x', 'divides_by_zero:X'")})
    (tmp_path / "project" / "divides_by_zero.py").write_text("1 / 0")

    with pytest.raises(InvalidPluginError, match=r"'x' cannot be loaded: ZeroDivisionError.*divides_by_zero\.py:1"):
        manager.assignors.create("x")


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("3", "3 is no function or class"),
        ("lambda needed: 1", "missing a required argument: 'needed'"),
        ("lambda: exit(0)", "SystemExit: 0"),
        ("lambda: (_ for _ in ()).throw(__import__('asyncio').CancelledError())", "CancelledError"),
    ],
)
def test_factory_that_makes_nothing_is_refused_when_used(load: Load, factory: str, said: str) -> None:
    manager = load({"bad": registering(f"'x', {factory}")})

    with pytest.raises(InvalidPluginError, match=f"the assignor 'x' cannot be made: {said}"):
        manager.assignors.create("x")


def test_options_that_the_schema_allows_and_the_factory_has_not_are_refused(load: Load) -> None:
    manager = load({"bad": registering("'x', lambda a=1: a, {'type': 'object'}")})

    assert manager.assignors.create("x", {"a": 2}) == 2
    with pytest.raises(InvalidPluginError, match="unexpected keyword argument 'b'"):
        manager.assignors.create("x", {"b": 2})
