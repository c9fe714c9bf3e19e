from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.plugins.errors import (
    InvalidPluginError,
    OptionProblem,
    PluginConflictError,
    PluginImportError,
    PluginOptionsError,
    UnknownPluginError,
)
from headwater.plugins.manager import PluginManager

Load = Callable[..., PluginManager]

MINE = """
    class Greedy:
        def __init__(self, limit=10):
            self.limit = limit

    SCHEMA = {"type": "object", "additionalProperties": False, "properties": {"limit": {"type": "integer"}}}

    @hookimpl
    def headwater_register_assignors(register):
        register("greedy", Greedy, SCHEMA, "Takes what it can get.")
"""

SERDES = [
    "avro",
    "bigint",
    "binary",
    "boolean",
    "double",
    "float",
    "int",
    "json",
    "json_schema",
    "protobuf",
    "smallint",
    "string",
    "uuid",
]
ASSIGNORS = ["balanced", "balanced_count", "fallback", "high_availability", "sticky"]


def test_builtins_are_there_without_any_plugin() -> None:
    manager = PluginManager(installed=False)

    assert list(manager.assignors) == ASSIGNORS
    assert list(manager.restore_strategies) == ["changelog", "snapshot"]
    assert list(manager.store_backends) == ["lmdb", "memory", "rocksdb"]
    assert list(manager.logs) == ["embedded", "object_store"]
    assert list(manager.serdes) == SERDES
    assert list(manager.commands) == []


def test_every_builtin_can_be_made_and_says_what_it_is(tmp_path: Path) -> None:
    manager = PluginManager(installed=False)
    options = {"embedded": {"path": str(tmp_path)}, "object_store": {"uri": tmp_path.as_uri()}}

    registries = (manager.assignors, manager.restore_strategies, manager.store_backends, manager.logs, manager.serdes)
    for registry in registries:
        for name, registration in registry.items():
            assert registry.create(name, options.get(name)) is not None
            assert registration.description.endswith(".")


def test_listing_builtins_imports_neither_them_nor_spark() -> None:
    code = """
import sys
from headwater.plugins.manager import PluginManager
manager = PluginManager()
print(list(manager.store_backends), list(manager.logs), list(manager.assignors))
print([name for name in ("pyspark", "pyarrow", "lmdb", "jsonschema", "headwater.compiler") if name in sys.modules])
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.splitlines()[1] == "[]"


def test_module_of_the_project_adds_to_the_builtins(load: Load) -> None:
    manager = load({"plugins.mine": MINE})

    assert list(manager.assignors) == sorted([*ASSIGNORS, "greedy"])
    assert manager.assignors.create("greedy", {"limit": 3}).limit == 3
    assert manager.assignors.create("greedy").limit == 10


def test_blocked_module_is_not_even_imported(load: Load) -> None:
    manager = load({"plugins.blocked": MINE, "bad": "1 / 0"}, block=("plugins.blocked", "bad"))

    assert list(manager.assignors) == ASSIGNORS
    assert "plugins.blocked" not in sys.modules


def test_unknown_name_is_refused_with_those_that_look_like_it() -> None:
    with pytest.raises(UnknownPluginError) as caught:
        PluginManager(installed=False).assignors["balanced_cuont"]

    error = caught.value
    assert (error.kind, error.name, error.suggestions) == ("assignor", "balanced_cuont", ("balanced_count", "balanced"))
    assert str(error) == (
        "there is no assignor 'balanced_cuont' (did you mean balanced_count or balanced? "
        "known: balanced, balanced_count, fallback, high_availability, sticky)"
    )


def test_unknown_name_that_looks_like_none_is_refused_with_all() -> None:
    with pytest.raises(UnknownPluginError, match=r"there is no store backend 'x' \(known: lmdb, memory, rocksdb\)"):
        PluginManager(installed=False).store_backends.create("x")


def test_options_that_the_schema_refuses_are_all_listed(load: Load) -> None:
    greedy = load({"plugins.mine": MINE}).assignors["greedy"]

    problems = greedy.problems({"limit": "many", "speed": 1})

    assert problems == [
        OptionProblem((), "Additional properties are not allowed ('speed' was unexpected)"),
        OptionProblem(("limit",), "'many' is not of type 'integer'"),
    ]
    with pytest.raises(PluginOptionsError, match=r"bad options of assignor greedy: .*'speed'.*; limit: 'many'"):
        greedy.create({"limit": "many", "speed": 1})


def test_options_that_fitted_before_let_no_equal_ones_of_another_type_pass(load: Load) -> None:
    greedy = load({"plugins.mine": MINE}).assignors["greedy"]

    made = [greedy.create({"limit": 1}) for _ in range(2)]

    assert made[0] is not made[1]
    with pytest.raises(PluginOptionsError, match="limit: True is not of type 'integer'"):
        greedy.create({"limit": True})


def test_plugin_without_a_schema_takes_no_options(load: Load) -> None:
    manager = load({"p": "@hookimpl\ndef headwater_register_logs(register):\n    register('mine', object)"})

    assert manager.logs["mine"].problems({}) == []
    with pytest.raises(PluginOptionsError, match="log mine"):
        manager.logs.create("mine", {"path": "x"})


def test_two_plugins_of_one_name_are_refused_with_both_origins(load: Load) -> None:
    manager = load({"one": MINE, "two": MINE})

    with pytest.raises(PluginConflictError) as caught:
        _ = manager.assignors

    assert sorted(caught.value.origins) == ["one:Greedy", "two:Greedy"]


def test_names_of_different_kinds_do_not_meet(load: Load) -> None:
    manager = load({"p": "@hookimpl\ndef headwater_register_logs(register):\n    register('lmdb', object)"})

    assert "lmdb" in manager.logs
    assert "lmdb" in manager.store_backends


def test_module_that_is_not_there_is_named(load: Load, tmp_path: Path) -> None:
    with pytest.raises(PluginImportError, match=r"plugin plugins\.absent cannot be imported: ModuleNotFoundError"):
        PluginManager(tmp_path, ["plugins.absent"], installed=False)


def test_module_that_fails_is_named_with_its_error(load: Load) -> None:
    with pytest.raises(PluginImportError, match="plugin bad cannot be imported: ZeroDivisionError") as caught:
        load({"bad": "1 / 0"})

    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_hook_that_is_none_of_ours_is_refused_with_the_hooks_there_are(load: Load) -> None:
    with pytest.raises(InvalidPluginError, match=r"plugin bad: unknown hook 'headwater_register_assignor'.*") as caught:
        load({"bad": "@hookimpl\ndef headwater_register_assignor(register): pass"})

    assert "headwater_register_assignors" in str(caught.value.hint)


def test_hook_with_an_argument_that_it_has_not_is_refused(load: Load) -> None:
    with pytest.raises(InvalidPluginError, match="plugin bad: "):
        load({"bad": "@hookimpl\ndef headwater_register_logs(register, more): pass"})


def test_schema_that_is_none_is_refused_with_the_name_of_its_plugin(load: Load) -> None:
    code = "@hookimpl\ndef headwater_register_logs(register):\n    register('mine', object, {'type': 'nonsense'})"

    with pytest.raises(InvalidPluginError, match="options schema of log 'mine'"):
        load({"bad": code}).logs.create("mine")


@pytest.mark.parametrize("where", ["json:Nothing", "no_such_module:x", "json", ":x"])
def test_factory_that_is_not_where_it_is_said_to_be_is_refused_when_used(load: Load, where: str) -> None:
    code = f"@hookimpl\ndef headwater_register_logs(register):\n    register('mine', {where!r})"
    manager = load({"bad": code})

    with pytest.raises(InvalidPluginError, match="log 'mine' cannot be loaded"):
        manager.logs.create("mine")


def test_same_module_name_in_two_projects_is_each_ones_own(load: Load) -> None:
    first = load({"plugins.mine": MINE}, directory="first")
    second = load({"plugins.mine": MINE.replace("limit=10", "limit=20")}, directory="second")
    again = load({"plugins.mine": MINE}, directory="first")

    limits = [manager.assignors.create("greedy").limit for manager in (first, second, again)]
    assert limits == [10, 20, 10]


def test_module_of_a_project_imports_its_neighbours(load: Load) -> None:
    code = """
        from plugins.shared import NAME

        @hookimpl
        def headwater_register_logs(register):
            register(NAME, object)
    """

    assert "ours" in load({"plugins.shared": "NAME = 'ours'", "plugins.mine": code}).logs


def test_module_that_would_replace_an_imported_one_is_refused(load: Load) -> None:
    with pytest.raises(PluginImportError, match=r"json is already a module of .*; rename the project's"):
        load({"json.mine": MINE})


def test_module_of_the_environment_may_be_named_too(load: Load, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "shared_plugin.py").write_text(
        "from headwater.plugins import hookimpl\n"
        "@hookimpl\ndef headwater_register_logs(register):\n    register('shared', object)\n"
    )
    sys.path.append(str(tmp_path / "elsewhere"))

    assert "shared" in PluginManager(tmp_path, ["shared_plugin"], installed=False).logs


def test_installed_plugin_is_found_by_its_entry_point(tmp_path: Path) -> None:
    (tmp_path / "their_plugin.py").write_text(
        "from headwater.plugins import hookimpl\n"
        "@hookimpl\ndef headwater_register_logs(register):\n    register('theirs', object)\n"
    )
    info = tmp_path / "their_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: their-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[headwater]\ntheirs = their_plugin\n")
    code = """
from headwater.plugins.manager import PluginManager
print(list(PluginManager().logs), list(PluginManager(block=["theirs"]).logs))
"""
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    ).stdout

    assert shown == "['embedded', 'object_store', 'theirs'] ['embedded', 'object_store']\n"
