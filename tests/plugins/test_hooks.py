"""Every hook has a description, a place in the docs, and a case here that calls a plugin's implementation of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from headwater.plugins.hookspecs import Hooks
from headwater.plugins.manager import PluginManager

Load = Callable[..., PluginManager]

DOCS = Path(__file__).parents[2] / "docs" / "plugins.md"
HOOKS = [name for name in vars(Hooks) if name.startswith("headwater_")]


def made(registry: Any) -> object:
    """What the plugin that the case registers as `mine` makes of an option."""
    return registry.create("mine", {"size": 3})


CASES: dict[str, Callable[[PluginManager], object]] = {
    "headwater_register_assignors": lambda manager: made(manager.assignors),
    "headwater_register_restore_strategies": lambda manager: made(manager.restore_strategies),
    "headwater_register_restore_listeners": lambda manager: made(manager.restore_listeners),
    "headwater_register_store_backends": lambda manager: made(manager.store_backends),
    "headwater_register_logs": lambda manager: made(manager.logs),
    "headwater_register_serdes": lambda manager: made(manager.serdes),
    "headwater_register_commands": lambda manager: manager.commands["mine"](size=3),
}
"""What Headwater does, by hook, when it needs a plugin of that kind."""


@pytest.mark.parametrize("hook", HOOKS)
def test_plugin_of_each_kind_is_called_and_makes_what_it_registered(hook: str, load: Load) -> None:
    manager = load(
        {
            "mine": f"""
            def make(size):
                return ["made", size]

            @hookimpl
            def {hook}(register):
                register("mine", make, {{"type": "object"}}, "Mine.")
            """
        }
    )
    called = []

    def before(name: str, implementations: Any, _: Any) -> None:
        called.extend((name, implementation.plugin_name) for implementation in implementations)

    undo = manager.pluggy.add_hookcall_monitoring(before, lambda *_: None)
    result = CASES[hook](manager)
    undo()

    assert (hook, "mine") in called
    assert result == ["made", 3]


def test_command_of_a_plugin_is_a_click_command(load: Load) -> None:
    manager = load(
        {
            "mine": """
            import click

            @click.command()
            def hello():
                "Greets."

            @hookimpl
            def headwater_register_commands(register):
                register("hello", hello)
            """
        }
    )

    assert isinstance(manager.commands["hello"], click.Command)


@pytest.mark.parametrize("hook", HOOKS)
def test_each_hook_has_a_section_in_the_docs_with_its_arguments(hook: str) -> None:
    sections = DOCS.read_text().split("\n### ")
    (section,) = [text for text in sections if text.startswith(f"{hook}\n")]
    function = vars(Hooks)[hook]
    arguments = function.__code__.co_varnames[1 : function.__code__.co_argcount]

    assert f"`{hook}({', '.join(arguments)})`" in section
    assert function.__doc__


BUILTIN: dict[str, Callable[[PluginManager], Any]] = {
    "headwater_register_assignors": lambda manager: manager.assignors,
    "headwater_register_restore_strategies": lambda manager: manager.restore_strategies,
    "headwater_register_store_backends": lambda manager: manager.store_backends,
    "headwater_register_logs": lambda manager: manager.logs,
    "headwater_register_serdes": lambda manager: manager.serdes,
}


@pytest.mark.parametrize("hook", BUILTIN)
def test_docs_name_every_builtin(hook: str) -> None:
    named = DOCS.read_text().split(f"\n### {hook}\n")[1].split("Built in:")[1].split(".")[0]

    assert named.split() == ", ".join(f"`{name}`" for name in BUILTIN[hook](PluginManager(installed=False))).split()


def test_example_of_the_docs_works_as_it_stands(load: Load) -> None:
    from headwater.runtime.assignment.assignor import TaskType, assign
    from headwater.runtime.assignment.cluster import ApplicationState, ClientState, ProcessId, TaskInfo
    from headwater.runtime.task_id import TaskId

    example = DOCS.read_text().split("```python\n")[1].split("```")[0]
    manager = load({"plugins.mine": example})
    racks = {ProcessId("a"): "right", ProcessId("b"): "left", ProcessId("c"): "left"}
    clients = {name: ClientState(name, 1, rack_id=rack) for name, rack in racks.items()}
    state = ApplicationState({TaskId(0, 0): TaskInfo(TaskId(0, 0))}, clients)

    for options, expected in (({"rack": "left"}, "b"), ({"rack": "gone"}, "a"), ({}, "a")):
        placed = assign(manager.assignors.create("first_client", options), state)
        assert [name for name, client in placed.items() if client.of_type(TaskType.ACTIVE)] == [expected]
