"""What the page about services promises: its unit, its commands, its messages, its exit codes."""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from click.testing import Result

from headwater.cli.commands.run import command
from headwater.runtime.driver.events import ClusterEnded
from headwater.runtime.driver.status import Condition
from headwater.runtime.progress.committer import FencedError
from headwater.runtime.tasks.errors import LockError

Headwater = Callable[..., Result]
PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")


def unit() -> configparser.ConfigParser:
    found = re.search(r"```ini\n(.*?)```", PAGE, re.S)
    assert found is not None
    parser = configparser.ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(found[1])
    return parser


def test_unit_signals_the_driver_alone_and_runs_a_command_that_there_is() -> None:
    service = unit()["Service"]
    assert service["KillMode"] == "mixed"
    program, name, *arguments = shlex.split(service["ExecStart"])
    assert (Path(program).name, name) == ("headwater", "run")
    with command.make_context("run", arguments) as context:
        assert (context.params["log_format"], context.params["metrics_port"]) == ("json", 9464)


def test_page_has_the_sentences_of_runs() -> None:
    told = ClusterEnded("shop-sales", "Spark's JVM was ended by SIGTERM").text
    assert "ends without a commit of its open epochs, as Spark's JVM was ended by SIGTERM" in told
    words = " ".join(PAGE.split())
    assert "`ends without a commit of its open epochs, as Spark's JVM was ended by SIGTERM`" in words
    assert "is in use by process 4711" in str(LockError("state", 4711))
    assert "`... is in use by process 4711`" in words
    assert str(FencedError("shop-sales", 1, 2)).startswith("another run of shop-sales has started")
    assert "`another run of shop-sales has started`" in words


@pytest.mark.parametrize("condition", [*get_args(Condition), "never_run"])
def test_page_names_every_condition(condition: str) -> None:
    assert f"`{condition}`" in PAGE


def code_of(what: str) -> int:
    """The exit code in the row of the page's table that begins with these words."""
    found = re.search(rf"^\| {what}[^|]*\| (\d+) \|", PAGE, re.M)
    assert found is not None
    return int(found[1])


def test_wrong_options_and_names_have_the_exit_code_of_the_page(headwater: Headwater) -> None:
    assert headwater("run", "--nope").exit_code == code_of("a wrong option")
    assert headwater("run", "-s", "nope").exit_code == code_of("a wrong option")


@pytest.mark.usefixtures("break_it")
def test_project_with_errors_has_the_exit_code_of_the_page(headwater: Headwater) -> None:
    assert headwater("run").exit_code == code_of("the project has errors")
