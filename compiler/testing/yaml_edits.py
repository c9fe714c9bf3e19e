"""Changes values in the text of a YAML file, and nothing else of it: comments, quotes and blank lines stay.

A library that loads and dumps YAML (ruamel.yaml) would write the whole file again, with its own folds and quotes. Here
the parser only says where a value stands; the text around it is left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml

_PLAIN = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./ -]*[A-Za-z0-9_./])?")
_NOT_PLAIN = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"})
"""Texts that some reader of YAML would take for something else."""


@dataclass(frozen=True)
class Edit:
    """Put `text` in the place of the characters `[start, end)`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class NewItem:
    """An item that a list has not had yet. `instead`: the number of the one in whose place it stands."""

    text: str
    instead: int | None = None


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text with edits, which do not overlap."""
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def composed(text: str) -> Any:
    """The nodes of a file's one document, with their marks."""
    return yaml.compose(text, Loader=yaml.SafeLoader)


def value_at(node: Any, name: str) -> Any:
    """The value of a key of a mapping; None if there is no such key."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)


def key_at(node: Any, name: str) -> Any:
    """A key of a mapping."""
    return next(key for key, _ in node.value if key.value == name)


def replaced(node: Any, value: Any) -> Edit:
    """Another value in the place of a node."""
    return Edit(node.start_mark.index, end_of(node), flow_text(value))


def end_of(node: Any) -> int:
    """Where the text of a node ends. The parser counts the comments behind a block to it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return end_of(last[1] if isinstance(last, tuple) else last)


def list_edits(text: str, holder: Any, name: str, items: Sequence[int | NewItem]) -> list[Edit]:
    """The list at a key of a mapping, with these items: numbers of present ones in their order, and new ones."""
    key, found = key_at(holder, name), value_at(holder, name)
    colon = text.index(":", key.end_mark.index) + 1
    end = end_of(found)
    if not items:
        return [Edit(colon, end, " []")] if found.value else []
    if found.flow_style or not found.value:
        texts = [each.text if isinstance(each, NewItem) else _text(text, found.value[each]) for each in items]
        if holder.flow_style:
            return [Edit(colon, end, f" [{', '.join(texts)}]")]
        blank = "\n" + " " * (key.start_mark.column + 2)
        return [Edit(colon, end, "".join(f"{blank}- {each}" for each in texts))]
    return _block_edits(text, found.value, items)


def _block_edits(text: str, present: Sequence[Any], items: Sequence[int | NewItem]) -> list[Edit]:
    kept = {each.instead if isinstance(each, NewItem) else each for each in items}
    gone = set(range(len(present))) - kept
    edits = [Edit(_line_start(text, _dash(text, present[n])), _line_end(text, end_of(present[n])), "") for n in gone]
    at = _line_start(text, _dash(text, present[0]))
    blank = " " * (_dash(text, present[0]) - at)
    for each in items:
        number = each.instead if isinstance(each, NewItem) else each
        if isinstance(each, NewItem):
            if number is None:
                edits.append(Edit(at, at, f"{'' if text[at - 1 : at] == chr(10) else chr(10)}{blank}- {each.text}\n"))
            else:
                edits.append(Edit(present[number].start_mark.index, end_of(present[number]), each.text))
        if number is not None:
            at = _line_end(text, end_of(present[number]))
    return _joined(edits)


def _joined(edits: Sequence[Edit]) -> list[Edit]:
    """Edits of which those at the same place are one, in their order."""
    inserted: dict[int, str] = {}
    for edit in edits:
        if edit.start == edit.end:
            inserted[edit.start] = inserted.get(edit.start, "") + edit.text
    removed = [edit for edit in edits if edit.start < edit.end]
    starts = {edit.start for edit in removed}
    joined = [Edit(edit.start, edit.end, inserted.get(edit.start, "") + edit.text) for edit in removed]
    return [*joined, *(Edit(at, at, text) for at, text in inserted.items() if at not in starts)]


def _text(text: str, node: Any) -> str:
    return text[node.start_mark.index : end_of(node)]


def _dash(text: str, item: Any) -> int:
    return text.rindex("-", 0, item.start_mark.index)


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _line_end(text: str, at: int) -> int:
    """Behind the end of the line of the character before `at`."""
    found = text.find("\n", max(at - 1, 0))
    return len(text) if found < 0 else found + 1


def _key_text(name: str) -> str:
    """A key. `n` and `y`, which are fine names of columns, are plain ones."""
    return name if len(name) == 1 and name.isalpha() else flow_text(name)


def flow_text(value: Any) -> str:
    """A value as one line of YAML that every reader understands alike."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_key_text(name)}: {flow_text(each)}" for name, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(flow_text, value)) + "]"
        case str() if _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN:
            return value
    return json.dumps(value, ensure_ascii=False)
