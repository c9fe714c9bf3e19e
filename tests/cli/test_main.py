from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from headwater.cli.main import COMMANDS, main
from headwater.errors import HeadwaterError


def imported_by(*arguments: str) -> set[str]:
    """Modules that `headwater ARGUMENTS` imports, in a process of its own."""
    code = (
        "import atexit, sys\n"
        "from headwater.cli.main import main\n"
        "atexit.register(lambda: print('\\n'.join(sys.modules), file=sys.stderr))\n"
        f"main({list(arguments)!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("--version",)])
def test_help_imports_neither_spark_nor_the_compiler(arguments: tuple[str, ...]) -> None:
    modules = imported_by(*arguments)

    assert "headwater.cli.main" in modules
    assert not {name for name in modules if name.startswith(("pyspark", "headwater.compiler", "pyarrow", "pandas"))}


def test_parse_imports_no_spark(shop: Path) -> None:
    modules = imported_by("parse", "--project-dir", str(shop))

    assert "headwater.compiler.pipeline" in modules
    assert not {name for name in modules if name.startswith(("pyspark", "headwater.runtime.cluster.spark"))}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_listed_and_has_help(name: str) -> None:
    listed = CliRunner().invoke(main, ["--help"]).output
    own = CliRunner().invoke(main, [name, "--help"])

    assert f"\n  {name} " in listed
    assert own.exit_code == 0
    assert f"headwater {name}" in own.output or f"main {name}" in own.output


def test_help_writes_the_switch_of_a_plugin_as_it_is_typed() -> None:
    assert "-p no:NAME" in CliRunner().invoke(main, ["run", "--help"]).output


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("biuld", "There is no command 'biuld'; did you mean 'build'?"),
        ("PARSE", "There is no command 'PARSE'; did you mean 'parse'?"),
        ("frobnicate", "There is no command 'frobnicate'; `headwater --help` lists the commands."),
    ],
)
def test_unknown_command_is_wrong_use_and_told_what_may_be_meant(word: str, told: str) -> None:
    result = CliRunner().invoke(main, [word])

    assert result.exit_code == 2
    assert told in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--vars", "a: [b"),
        ("--vars", "[1, 2]"),
        ("--vars", "{1: 2}"),
        ("--vars", "{a: 1, a: 2}"),
        ("--vars", "{a: no}"),
        ("--vars", "{day: 2024-01-01}"),
        ("--vars", "!!python/name:os.system x"),
        ("--vars", "a: &a [*a]"),
        pytest.param(("--vars", "[" * 5_000), id="deep"),
        ("-p", "lmdb"),
        ("--format", "xml"),
        ("--project-dir", str(Path(__file__))),
    ],
)
def test_option_that_cannot_be_read_is_wrong_use(headwater: Callable[..., Result], arguments: tuple[str, ...]) -> None:
    assert headwater("parse", *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--nope"], "error: No such option '--nope'.\n  hint: see `main --help`\n"),
        (["reed"], "error: There is no command 'reed'; did you mean 'read'?\n  hint: see `main --help`\n"),
        (["read"], "error: Missing argument 'TOPIC'.\n  hint: see `main read --help`\n"),
        (
            ["read", "orders", "--from", "x"],
            "error: Invalid value for '--from': 'x' is not a valid whole number.\n  hint: see `main read --help`\n",
        ),
    ],
)
def test_wrong_use_is_told_in_the_form_of_every_error(arguments: list[str], told: str) -> None:
    result = CliRunner().invoke(main, arguments)

    assert result.exit_code == 2
    usage, _, rest = result.stderr.partition("\n")
    assert usage.startswith("Usage: main ")
    assert rest == told


def test_error_of_a_command_is_a_sentence_with_its_hint_and_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class TideError(HeadwaterError):
        exit_code = 7

    @click.command()
    def ebb() -> None:
        raise TideError("the tide is out", "wait six hours")

    monkeypatch.setattr("headwater.cli.commands.ls.command", ebb)
    result = CliRunner().invoke(main, ["ls"])

    assert result.exit_code == 7
    assert result.stderr == "error: the tide is out\n  hint: wait six hours\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["init", "tide"]])
def test_full_disk_below_standard_output_is_told_as_that_of_standard_output(
    tmp_path: Path, arguments: list[str], unbuffered: str
) -> None:
    command = [sys.executable, "-m", "headwater.cli.main", *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert done.stderr == (
        "error: standard output: No space left on device\n  hint: make room on that disk and run again\n"
    )
    assert done.returncode == 1


def test_bug_in_a_command_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def broken() -> None:
        raise KeyError("x")

    monkeypatch.setattr("headwater.cli.commands.ls.command", broken)

    assert isinstance(CliRunner().invoke(main, ["ls"]).exception, KeyError)


@pytest.mark.parametrize(("words", "offered"), [("headwater des", "describe"), ("headwater parse --for", "--format")])
def test_shell_completes_commands_and_options(words: str, offered: str) -> None:
    environment = {"_HEADWATER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(main, prog_name="headwater", env=environment)

    assert done.stdout == f"plain,{offered}\n"
