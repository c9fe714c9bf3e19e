"""Mistakes with a plugin of one's own, as `compile` tells them: each at its place, none with a stack trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Headwater = Callable[..., Result]
Compile = Callable[..., str]

PLUGIN = """
from headwater.plugins import hookimpl

@hookimpl
def headwater_register_assignors(register):
    register("pack", object{schema})
"""
ONE_NEEDED = """, {"additionalProperties": False, "required": ["size"], "properties": {"size": {"type": "integer"}}}"""


@pytest.fixture
def compiled(shop: Path, headwater: Headwater) -> Compile:
    """What `compile` says of a shop with the assignor `pack`, whose name is on the last line but those of `options`."""

    def run(schema: str, *options: str, listed: str = "plugins.pack") -> str:
        (shop / "plugins").mkdir()
        (shop / "plugins" / "pack.py").write_text(PLUGIN.format(schema=schema))
        with (shop / "headwater.yml").open("a") as project:
            project.write(f"plugins:\n  - {listed}\n" if listed else "")
        topology = shop / "topologies" / "sales.yml"
        lines = ["assignment:", "  assignor:", "    name: pack", *(["    options:"] if options else []), *options]
        before = topology.read_text()
        topology.write_text("\n".join([before, *lines, ""]))
        result = headwater("compile")
        assert result.exit_code == 1, result.output
        at = len(f"{before}\n".splitlines()) + 3
        return result.stderr.replace(f"sales.yml:{at}:", "NAME:").replace(f"sales.yml:{at + 2}:", "OPTION:")

    return run


def test_option_that_is_needed_and_not_there_is_told_at_the_name(compiled: Compile) -> None:
    assert "NAME:11: error HW602: The assignor 'pack' refuses its options: 'size' is a required" in compiled(ONE_NEEDED)


def test_misspelt_option_is_told_at_its_place_with_the_right_one(compiled: Compile) -> None:
    told = compiled(ONE_NEEDED, "      sise: 3")

    assert "OPTION:7: error HW602: The assignor 'pack' has no option 'sise'." in told
    assert "Did you mean 'size'?" in told


def test_every_unknown_option_is_told(compiled: Compile) -> None:
    told = compiled(ONE_NEEDED, "      size: 3", "      colour: 3", "      weight: 3")

    assert "has no option 'colour'" in told
    assert "has no option 'weight'" in told
    assert "It has size." in told


def test_options_of_a_plugin_without_a_schema_are_refused(compiled: Compile) -> None:
    told = compiled("", "      size: 3")

    assert "OPTION:7: error HW602: The assignor 'pack' has no option 'size'." in told
    assert "It has none." in told


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (', {"properties": {"size": {"type": "int"}}}', "'int' is not valid under any of the given schemas"),
        (', {"required": "size"}', "'size' is not of type 'array'"),
        (', {"$ref": "#/definitions/absent"}', "there is no /definitions/absent"),
    ],
)
def test_schema_that_is_none_is_told(compiled: Compile, schema: str, problem: str) -> None:
    told = compiled(schema, "      size: 3")

    assert f"NAME:11: error HW602: The options schema of assignor 'pack' is no JSON Schema: {problem}." in told


def test_plugin_that_the_project_does_not_list_is_told_with_the_place_for_it(compiled: Compile) -> None:
    told = compiled("", listed="")

    assert "NAME:11: error HW601: There is no assignor 'pack'." in told
    assert "List the module of your own in headwater.yml, under 'plugins'." in told


def test_module_that_is_not_there_is_told_with_how_to_name_it(compiled: Compile) -> None:
    assert "hint: `plugins` in headwater.yml has modules by dotted name" in compiled("", listed="plugin.pack")
