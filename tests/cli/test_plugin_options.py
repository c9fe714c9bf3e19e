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
    message = "NAME:11: error HW602: The assignor 'pack' does not accept its options: 'size' is a required"
    assert message in compiled(ONE_NEEDED)


def test_misspelt_option_is_told_at_its_place_with_the_right_one(compiled: Compile) -> None:
    told = compiled(ONE_NEEDED, "      sise: 3")

    assert "OPTION:7: error HW602: The assignor 'pack' has no option 'sise'." in told
    assert "Did you mean 'size'?" in told


def test_every_unknown_option_is_told(compiled: Compile) -> None:
    told = compiled(ONE_NEEDED, "      size: 3", "      colour: 3", "      weight: 3")

    assert "has no option 'colour'" in told
    assert "has no option 'weight'" in told
    assert "Its options are size." in told


def test_options_of_a_plugin_without_a_schema_are_refused(compiled: Compile) -> None:
    told = compiled("", "      size: 3")

    assert "OPTION:7: error HW602: The assignor 'pack' has no option 'size'." in told
    assert "It has no options." in told


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

    assert f"NAME:11: error HW602: The options schema of assignor 'pack' is not a JSON Schema: {problem}." in told


def test_plugin_that_the_project_does_not_list_is_told_with_the_place_for_it(compiled: Compile) -> None:
    told = compiled("", listed="")

    assert "NAME:11: error HW601: There is no assignor 'pack'." in told
    assert "List your own module in headwater.yml, under 'plugins'." in told


def test_module_that_is_not_there_is_told_at_its_line_with_the_right_one(compiled: Compile, shop: Path) -> None:
    told = compiled("", listed="plugin.pack")

    at = len((shop / "headwater.yml").read_text().splitlines())
    assert f"headwater.yml:{at}:5: error HW603: There is no module 'plugin.pack'." in told
    assert "hint: Did you mean 'plugins.pack'?" in told
    assert "HW601" not in told  # what the module may have is not known


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("x = 1\nraise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("def f(:\n", "invalid syntax"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_module_that_cannot_be_used_is_told_at_its_line_with_the_place_of_its_own(
    shop: Path, headwater: Headwater, code: str, reason: str
) -> None:
    (shop / "plugins").mkdir()
    (shop / "plugins" / "broken.py").write_text(code)
    (shop / "plugins" / "raises.py").write_text("raise ValueError('at once')")
    with (shop / "headwater.yml").open("a") as project:
        project.write("plugins:\n  - plugins.raises\n  - plugins.broken\n")
    at = len((shop / "headwater.yml").read_text().splitlines())

    result = headwater("compile")

    (line,) = [line for line in result.stderr.splitlines() if f"headwater.yml:{at}:5: error HW604:" in line]
    assert result.exit_code == 1
    assert reason in line
    assert "broken.py" in line
    if "syntax" not in reason:  # which `parse` finds, and then imports nothing
        assert f"headwater.yml:{at - 1}:5: error HW604: The module 'plugins.raises' cannot be" in result.stderr
    left_out = headwater("compile", "-p", "no:plugins.broken", "-p", "no:plugins.raises")
    assert left_out.exit_code == 0, left_out.output


def test_parse_tells_a_module_that_is_not_there_and_imports_none(shop: Path, headwater: Headwater) -> None:
    (shop / "plugins").mkdir()
    (shop / "plugins" / "raises.py").write_text("raise ValueError('at once')")
    with (shop / "headwater.yml").open("a") as project:
        project.write("plugins:\n  - plugins.raises\n")
    assert headwater("parse").exit_code == 0

    (shop / "plugins" / "raises.py").unlink()
    assert "HW603" in headwater("parse").stderr
