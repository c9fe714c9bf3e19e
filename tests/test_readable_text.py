"""Text from outside in messages, logs and JSON: nothing in it ends a run, forges a line or steers a terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.commands.init import command as init
from headwater.compiler.diagnostics import Diagnostics, Position, as_github, as_json, as_text
from headwater.errors import HeadwaterError, shortened
from headwater.readable_text import UNICODE_ESCAPES, entry, json_text, readable, readable_traceback, visible
from headwater.runtime.dataclass_json import compact

STEERING = "\x00\x07\x08\x1b\x7f\x9b\x85\u2028\u2029\u202e\u2066\u200f\ufeff\udc80\ud800\U000e0041"
"""A bell, escapes, ends of lines, directions, lone surrogates."""

WORDS = "naïve Straße 東京\u3000 می\u200cخواهم 👩\u200d🚀 a\u00a0b"
"""Letters as people write them, with joiners and wide blanks."""


@pytest.mark.parametrize("character", [*STEERING, "\r"])
def test_message_has_an_escape_for_what_nobody_can_read(character: str) -> None:
    escape = character.encode("unicode_escape").decode()

    assert readable(f"a{character}b") == f"a{escape}b"
    assert HeadwaterError(f"a{character}b", f"c{character}").args == (f"a{escape}b",)
    assert str(HeadwaterError("a", f"c{character}")) == f"a (c{escape})"
    assert shortened(f"a{character}b") == f"a{escape}b"


def test_letters_of_all_languages_stay_as_they_are() -> None:
    assert readable(WORDS) == visible(WORDS) == WORDS
    assert json_text({"a": WORDS}) == json.dumps({"a": WORDS}, ensure_ascii=False)


def test_further_lines_of_a_message_are_no_entries_of_a_log() -> None:
    assert entry("a\n12:00:00 all is well\n    a step\n") == "a\n  12:00:00 all is well\n    a step\n"


def test_json_of_any_text_is_exact_and_has_nothing_that_steers() -> None:
    text = json_text({STEERING: [STEERING + "\r\n\t" + WORDS]}, indent=2)

    assert json.loads(text) == {STEERING: [STEERING + "\r\n\t" + WORDS]}
    assert visible(text, lines=True) == text
    text.encode()


def test_json_in_the_log_has_names_that_are_no_text() -> None:
    name = os.fsdecode(b"/data/caf\xe9/\xc3\xa9")

    assert compact([name]) == '["/data/caf\\udce9/\u00e9"]'
    assert json.loads(compact([name]).encode()) == [name]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_an_encoding_lacks_is_an_escape_that_json_reads(encoding: str) -> None:
    written = json.dumps(WORDS + "\udc80", ensure_ascii=False).encode(encoding, UNICODE_ESCAPES)

    assert json.loads(written.decode(encoding)) == WORDS + "\udc80"


def test_finding_is_printed_on_its_lines_in_every_form() -> None:
    found = Diagnostics()
    found.add("HW601", Position("a\x1b[2J.yml", 1, 5, 7), f"There is no {STEERING}\n::error::x", STEERING)
    sources = {"a\x1b[2J.yml": "a: \x07\x1b]b c"}

    text = as_text(found, sources)
    assert visible(text, lines=True) == text
    assert text.splitlines()[1:3] == ["  | a: \\x07\\x1b]b c", "  |        ^~~~~"]
    assert as_github(found).count("\n") == 1
    assert visible(as_github(found), lines=True) == as_github(found)
    assert json.loads(as_json(found))["diagnostics"][0]["hint"] == readable(STEERING)


ODD = os.fsdecode(b"caf\xe9\n\x1b[31m")


@pytest.mark.parametrize(
    ("arguments", "encoding"),
    [
        (("parse",), "ascii"),
        (("compile",), "latin-1"),
        (("clean",), "ascii"),
        (("clean",), "latin-1"),
        (("clean",), "utf-8"),
        (("ls", "--format", "json"), "ascii"),
        (("plan",), "latin-1"),
        (("seed",), "latin-1"),
        (("debug",), "latin-1"),
    ],
)
def test_project_in_a_folder_whose_name_is_no_text(tmp_path: Path, encoding: str, arguments: tuple[str, ...]) -> None:
    init.main(["shop", "--project-dir", str(tmp_path / "shop")], standalone_mode=False)
    root = (tmp_path / "shop").rename(tmp_path / ODD)

    done = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )

    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    assert b"\x1b" not in done.stdout + done.stderr
    if arguments == ("seed",):
        assert done.stderr.decode(encoding).splitlines()[1:] == [
            "  hint: rename it, or have the log and the state elsewhere (`log` and `state_dir` in the profile)"
        ]
        assert "a name in this path is not UTF-8" in done.stderr.decode(encoding)
    if arguments == ("clean",):
        assert done.stdout.decode(encoding).count("\n") == 1, done.stdout


def test_commands_print_texts_for_people_in_one_place() -> None:
    root = Path(__file__).parents[1] / "cli"
    lines = [line.strip() for file in root.rglob("*.py") for line in file.read_text("utf-8").splitlines()]

    assert [line for line in lines if re.search(r"\bclick\.echo\(f|(?<![.\w])print\(", line)] == [
        "click.echo(form(results, base), nl=False)"
    ]


def test_error_that_nobody_explains_is_printed_without_what_steers_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = ValueError("one\x1b[31m\ntwo\r\udc80")
    readable_traceback(ValueError, error, None)
    assert capsys.readouterr().err == "ValueError: one\\x1b[31m\ntwo\\r\\udc80\n"
