"""All pages: docs/index.md lists them, their links lead somewhere, and their commands and options exist."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headwater.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("projects/*/README.md"))
)
EVERYDAY = {
    r"(?:computed|worked out) again|recompute": "rebuild",
    r"fed from outside": "external topic",
    r"(?:left|leaves?|leaving)(?: (?:records?|rows?|them))? out": "skip, or omit",
    r"(?:is|are|was|were|be|been) told|told of|tells? of": "raise, or report",
    r"(?<!make )rooms?": "package, or space",
    r"go(?:es)? on from|gone on with": "resume",
    r"beg[iau]ns? again|beginning again": "restart",
    r"(?:made|makes?) again": "recreate, or restore",
    r"lets? (?:it |them )?go|g(?:ive|ives|iven|iving|ave) up": "release, close or drop",
    r'(?<!")refus\w+': "reject, or raise",  # not the value of `recomputed`
    r"judg\w+|unjudged": "type checker, typed, untyped",
    r"(?:is|are) none": "there is no, without",
    r"whoever": "the reader, the owner",
    r"comes? to (?:nothing|that|it|a)": "say what happens",
    r"evolves": "replace",
    r"facts": "metadata, state",
}
"""Everyday words that these pages once had, and the terms of the glossary."""
UNFINISHED = {
    "CHANGELOG.md",  # what earlier versions said
    "docs/diagnostics.md",
}
"""Pages with everyday words."""
UNFINISHED_PACKAGES = {
    "compiler/checks",
    "compiler/codes.py",
    "runtime/log",
    "runtime/records",
}
"""Packages with everyday words in their messages."""
PACKAGES = sorted(
    {
        "/".join(path.relative_to(ROOT).parts[:2])
        for top in ("api", "cli", "compiler", "plugins", "runtime")
        for path in (ROOT / top).rglob("*.py")
    }
    - UNFINISHED_PACKAGES
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


def prose(page: str) -> str:
    """The page without code."""
    return SPAN.sub("", BLOCK.sub("", text(page)))


def links(page: str) -> list[str]:
    return [link for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", prose(page)) if not re.match(r"\w+:", link)]


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


def test_readme_shows_what_parse_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "projects" / "flights", tmp_path / "flights", ignore=shutil.ignore_patterns("target", ".*"))
    monkeypatch.chdir(tmp_path / "flights")
    assert f"$ headwater parse\n{CliRunner().invoke(main, ['parse']).output}```" in text("README.md")

    topology = Path("topologies", "carrier_delays.yml")
    topology.write_text(topology.read_text().replace("store: delay_totals", "store: delay_total"))
    assert f"```\n{CliRunner().invoke(main, ['parse']).output}".replace("1 error\n", "```") in text("README.md")


@pytest.mark.parametrize("name", re.findall(r"^\| \*\*(.+?)\*\*", text("docs/glossary.md"), re.MULTILINE))
def test_word_is_in_the_glossary_once(name: str) -> None:
    assert text("docs/glossary.md").count(f"| **{name}** |") == 1


def everyday(plain: str) -> list[tuple[str, str]]:
    """Everyday words with what is around them, and the terms to use."""
    return [
        (plain[max(0, found.start() - 40) : found.end() + 40], terms)
        for words, terms in EVERYDAY.items()
        for found in re.finditer(rf"\b(?:{words})\b", plain)
    ]


def messages(module: Path) -> Iterator[str]:
    """Texts of a module without its docstrings: messages, hints, help."""
    tree = ast.parse(module.read_text("utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


@pytest.mark.parametrize("page", sorted({*PAGES} - UNFINISHED))
def test_page_has_the_terms_of_the_glossary(page: str) -> None:
    assert everyday(" ".join(prose(page).split())) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_have_the_terms_of_the_glossary(package: str) -> None:
    path = ROOT / package
    modules = [path] if path.is_file() else sorted(path.rglob("*.py"))
    texts = {message for module in modules for message in messages(module) if " " in message}
    assert [found for message in sorted(texts) for found in everyday(message)] == []


@pytest.mark.parametrize("schema", sorted((ROOT / "schemas").glob("*.json")), ids=lambda path: path.name)
def test_schema_has_the_terms_of_the_glossary(schema: Path) -> None:
    assert everyday(schema.read_text("utf-8")) == []
