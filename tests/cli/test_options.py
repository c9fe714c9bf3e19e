"""Which project a command works on, and where its options may stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from headwater.cli.main import COMMANDS, main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def inside(shop: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, which is one of the shop's."""
    monkeypatch.chdir(shop / "topologies")
    monkeypatch.delenv("HEADWATER_PROJECT_DIR", raising=False)
    return shop


def test_project_is_found_from_a_folder_inside_it_and_told(inside: Path) -> None:
    result = run("parse")

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("shop: ")
    assert result.stderr == f"using the project in {inside}\n"


def test_findings_and_places_are_told_from_the_current_folder(inside: Path, break_it: None) -> None:
    assert "\n../topologies/sales.yml:" in run("parse").stderr
    assert "  ../topics/orders.yml:3\n" in run("ls", "--type", "topic").stdout


def test_project_of_the_current_folder_is_not_told(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)

    assert run("parse").stderr == ""


def test_project_that_is_named_is_not_searched_above(inside: Path) -> None:
    result = run("parse", "--project-dir", ".")

    assert result.exit_code == 1
    assert "HW001" in result.stderr


def test_folder_in_no_project_is_told_with_where_was_looked(nowhere: Path) -> None:
    result = run("parse")

    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: there is no headwater.yml in {nowhere}, nor in a folder above it\n")


def test_project_folder_that_is_not_there_is_wrong_use(nowhere: Path) -> None:
    result = run("parse", "--project-dir", "shpo")

    assert result.exit_code == 2
    assert "there is no folder shpo" in result.stderr


def test_debug_looks_at_the_machine_where_there_is_no_project(nowhere: Path) -> None:
    assert run("debug", "python", "packages").exit_code == 0

    result = run("debug", "python", "profile")
    assert result.exit_code == 1
    assert "there is no headwater.yml" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("-s", "orders", "ls", "--format", "json"),
        ("ls", "-s", "orders", "--format", "json"),
        ("--select", "orders", "--profile", "shop", "--target", "local", "ls", "--format", "json"),
        ("--select=orders", "ls", "--format", "json"),
        ("--vars", "{a: 1}", "-s", "orders", "ls", "--format", "json"),
    ],
)
def test_option_before_the_command_does_what_it_does_behind_it(inside: Path, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert [each["name"] for each in json.loads(result.stdout)] == ["orders"], result.output


def test_project_is_named_before_the_command(shop: Path, nowhere: Path) -> None:
    assert run("--project-dir", str(shop), "parse").stdout.startswith("shop: ")
    assert run("--project-dir", str(nowhere / "new"), "init", "new").exit_code == 0
    assert (nowhere / "new" / "headwater.yml").exists()


def test_option_that_is_given_twice_counts_where_it_stands_last_or_adds_up(inside: Path) -> None:
    assert run("--target", "nope", "parse", "--target", "local").exit_code == 0
    assert run("--target", "local", "parse", "--target", "nope").exit_code == 1

    both = json.loads(run("-s", "orders", "ls", "-s", "daily_sales", "--format", "json").stdout)
    assert [each["name"] for each in both] == ["orders", "daily_sales"]


def test_option_before_a_command_that_has_it_not_is_wrong_use(nowhere: Path) -> None:
    result = run("-s", "orders", "init", "shop")

    assert result.exit_code == 2
    assert "The command 'init' has no option '--select'." in result.stderr
    assert not (nowhere / "shop").exists()


ARGUMENTS = {
    "read": "orders",
    "query": "sales_by_day",
    "retry": "orders",
    "reset": "sales --dry-run",
    "rewind": "sales --topic orders --to earliest --dry-run",
    "remove": "sales --dry-run",
    "debug": "profile",
    "log repair": "--dry-run",
    "log copy": "copied",
    "kafka import": "orders",
}
"""What a command cannot do without."""


def _of_a_project() -> Iterator[str]:
    """The commands that take variables. Those that run a topology show all findings of `compile`."""
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        group = isinstance(command, click.Group)
        every = (
            {f"{name} {each}": command.get_command(context, each) for each in command.list_commands(context)}
            if (group)
            else {name: command}
        )
        for words, each in every.items():
            if any(option.name == "vars" for option in each.params) and words not in ("run", "build"):
                yield f"{words} {ARGUMENTS.get(words, '')}".strip()


@pytest.mark.parametrize("command", list(_of_a_project()))
@pytest.mark.parametrize("asked", ["--vars", "environment", "-p"])
def test_option_that_nothing_reads_is_warned_of_once_by_every_command(
    inside: Path, command: str, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(inside)
    assert run("seed").exit_code == 0
    given, told_of, hint = {
        "--vars": (["--vars", "{smalest_order: 2}"], "--vars: warning HW035: ", "Did you mean 'smallest_order'?"),
        "environment": ([], "HEADWATER_TARGET: warning HW038: ", "Use the option --target."),
        "-p": (["-p", "no:mine"], "-p: warning HW040: ", "Remove the option."),
    }[asked]
    if asked == "environment":
        monkeypatch.setenv("HEADWATER_TARGET", "production")

    told = run(*command.split(), *given).stderr

    assert told.count(told_of) == 1, told
    assert hint in told


@pytest.mark.parametrize("command", ["parse", "seed", "ls", "describe", "read orders", "query sales_by_day"])
def test_variable_that_nothing_uses_is_warned_of_by_every_command(inside: Path, command: str) -> None:
    topics = inside / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("Orders as", "\"{{ var('things', 'Orders') }} as\" #"))

    misspelt = run(*command.split(), "--vars", "{thigns: Sales}")
    used = run(*command.split(), "--vars", "{things: Sales}")

    assert (misspelt.exit_code, used.exit_code) == (0, 0), misspelt.output + used.output
    assert "--vars: warning HW035: No file of the project uses the variable 'thigns'." in misspelt.stderr
    assert "Did you mean 'things'?" in misspelt.stderr
    assert "HW035" not in used.stderr


def test_variable_of_an_unselected_file_or_another_target_is_not_warned_of(inside: Path) -> None:
    other = inside / "topologies" / "other.yml"
    other.write_text(
        "topology: other\nflows:\n  a:\n    from: orders\n    steps:\n"
        "      - filter: quantity > {{ var('least', 1) }}\n    to: a_out\n"
    )
    profiles = inside / "profiles.yml"
    profiles.write_text(profiles.read_text() + "    production:\n      state_dir: \"{{ var('state', 'x') }}\"\n")

    assert "HW035" not in run("parse", "-s", "sales", "--vars", "{least: 2, state: y}").stderr


def test_option_before_the_command_is_completed(inside: Path) -> None:
    environment = {"_HEADWATER_COMPLETE": "bash_complete", "COMP_WORDS": "headwater -s x par", "COMP_CWORD": "3"}

    assert CliRunner().invoke(main, prog_name="headwater", env=environment).stdout == "plain,parse\n"
