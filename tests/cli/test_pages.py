"""All pages: docs/index.md lists them, their links lead somewhere, and their commands and options exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from headwater.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("projects/*/README.md"))
)
BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`+[^`]+`+")


@cache
def text(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


@cache
def headings(page: str) -> frozenset[str]:
    """The fragments that lead to the headings of a page, as GitHub makes them."""
    found: list[str] = []
    for title in re.findall(r"^#+ (.+)$", BLOCK.sub("", text(page)), re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
        fragment = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.append(f"{fragment}-{found.count(fragment)}" if fragment in found else fragment)
    return frozenset(found)


def links(page: str) -> list[str]:
    prose = SPAN.sub("", BLOCK.sub("", text(page)))
    return [link for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", prose) if not re.match(r"\w+:", link)]


def commands(page: str) -> Iterator[list[str]]:
    """Calls of headwater, in code between backticks and in indented or fenced lines."""
    body = text(page)
    for block in (*BLOCK.findall(body), *re.findall(r"(?:^    .+\n)+", body, re.MULTILINE)):
        yield from map(words, re.findall(r"^ *(?:- run: )?(headwater [^|#\n]*)", block, re.MULTILINE))
    for span in re.findall(r"`(headwater\s[^`]+)`", BLOCK.sub("", body)):
        yield words(span)


def words(call: str) -> list[str]:
    call = " ".join(call.split()).replace(r"\|", "|")
    try:
        return shlex.split(call, comments=True)[1:]
    except ValueError:  # a text in quotes that goes on in the next line
        return call.split()[1:]


def wrong(given: list[str]) -> str | None:
    """What of a call the command line does not know; None if it knows all of it. The command may be left open."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        names = command.list_commands(context)
        name = next((word for word in given if word in names), None)
        if name is None and given and re.fullmatch("[a-z]+", given[0]):
            return given[0]
        if name is None:
            break
        command = command.get_command(context, name) or main
        given = given[given.index(name) + 1 :]
    known = options(command)
    return next((word for word in given if word.startswith("--") and word.split("=")[0] not in known), None)


def options(command: click.Command) -> set[str]:
    return {option for each in command.params for option in each.opts} | {"--help", "--"}


def test_index_lists_every_page_once() -> None:
    listed = [(ROOT / "docs" / link).resolve().relative_to(ROOT).as_posix() for link in links("docs/index.md")]
    pages = {page.partition("#")[0] for page in listed}

    assert len(listed) == len(set(listed))
    assert set(PAGES) - pages == {"docs/index.md", "CHANGELOG.md"}
    assert "docs/index.md" in links("README.md")


@pytest.mark.parametrize("page", PAGES)
def test_links_of_page_lead_somewhere(page: str) -> None:
    for link in links(page):
        path, _, fragment = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists(), link
        if fragment and target.suffix == ".md":
            assert fragment in headings(target.relative_to(ROOT).as_posix()), link


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_page_exist(page: str) -> None:
    assert [(given, found) for given in commands(page) if (found := wrong(given))] == []


@pytest.mark.parametrize("name", re.findall(r"^\| \*\*(.+?)\*\*", text("docs/glossary.md"), re.MULTILINE))
def test_word_is_in_the_glossary_once(name: str) -> None:
    assert text("docs/glossary.md").count(f"| **{name}** |") == 1
