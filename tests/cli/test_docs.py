from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.cli.commands.debug import CHECKS
from headwater.cli.main import COMMANDS
from headwater.runtime.simulation.fleet import FORMS
from headwater.runtime.simulation.report import MEASURES

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")


def test_page_lists_every_command_in_the_order_of_help() -> None:
    assert re.findall(r"^\| `([a-z]+)[` ]", PAGE.partition("## Options")[0], re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize("check", CHECKS)
def test_page_names_every_check(check: str) -> None:
    assert f"`{check}`" in PAGE.partition("## debug")[2]


@pytest.mark.parametrize("name", [*MEASURES, *(f"{event} " for event in FORMS)])
def test_page_names_every_measure_and_event_of_simulate(name: str) -> None:
    assert f"`{name}" in PAGE.partition("## simulate")[2].partition("\n## ")[0].replace("roll`", "roll `")
