"""Expected rows, written back into YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ...runtime.testing.comparing import Compared
from ...runtime.testing.rows import Columns, moment_text

# Changes values in the text of a YAML file, and nothing else of it: comments, quotes and blank lines stay.
#
# A library that loads and dumps YAML (ruamel.yaml) would write the whole file again, with its own folds and quotes.
# Here the parser only says where a value stands; the text around it is left alone.

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
        texts = [each.text if isinstance(each, NewItem) else _yaml_text(text, found.value[each]) for each in items]
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


def _yaml_text(text: str, node: Any) -> str:
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


# Writes what was found into the file of a test: only cells that differ, rows that are new, and rows that are not.


@dataclass(frozen=True)
class Found:
    """What was found for an entry of `expect`, which begins at `line` of the file. `kind`: topic, store or dropped."""

    kind: str
    line: int
    rows: Sequence[Compared]
    columns: Columns


def updated(text: str, found: Sequence[Found]) -> str:
    """The text of a file with what was found in the place of what it expects."""
    edits: list[Edit] = []
    entries = _entries(composed(text))
    for each in found:
        entry = entries[each.line, each.kind]
        edits += _dropped(entry, each) if each.kind == "dropped" else _rows(text, entry, each)
    return edited(text, edits)


def _entries(document: Any) -> dict[tuple[int, str], Any]:
    """The entries of all `expect`, by the line of the key that says what they are about."""
    return {
        (key_at(entry, kind).start_mark.line + 1, kind): entry
        for case in value_at(document, "tests").value
        for entry in getattr(value_at(case, "expect"), "value", ())
        for kind in ("topic", "store", "dropped")
        if value_at(entry, kind) is not None
    }


def _dropped(entry: Any, found: Found) -> list[Edit]:
    counts = value_at(entry, "dropped")
    return [
        replaced(value_at(counts, reason), (row.found or {})[reason]) for row in found.rows for reason in row.differing
    ]


def _rows(text: str, entry: Any, found: Found) -> list[Edit]:
    present = value_at(entry, "rows").value
    edits: list[Edit] = []
    items: list[tuple[int | NewItem, Compared]] = []
    for row in found.rows:
        if row.number is None or row.kind == "missing":
            continue
        cells = _cells(present[row.number], row, found.columns)
        if cells is None:  # one of the two was deleted: they have other cells
            items.append((NewItem(_text(row, found), row.number), row))
        else:
            edits += cells
            items.append((row.number, row))
    for row in found.rows:
        if row.kind == "unexpected":
            items.insert(_place(items, row), (NewItem(_text(row, found)), row))
    wanted = [item for item, _ in items]
    if wanted != list(range(len(present))):
        if edits and value_at(entry, "rows").flow_style:  # written anew as a whole
            wanted = [each if isinstance(each, NewItem) else NewItem(_text(row, found)) for each, row in items]
            edits = []
        edits += list_edits(text, entry, "rows", wanted)
    return edits


def _cells(item: Any, row: Compared, columns: Columns) -> list[Edit] | None:
    """The cells of a row that differ, with what was found; None if that has no such cells."""
    edits = []
    roles = {columns.field_name(role) for role in ("key", "value")}
    for name in row.differing:
        node = _node(item, name, columns)
        if node is None or name not in (row.found or {}) or name in roles:
            return None
        edits.append(replaced(node, _value(columns, name, (row.found or {})[name])))
    return edits


def _node(item: Any, name: str, columns: Columns) -> Any:
    """The node of a cell in a row of the file, in either form; None if it is not there."""
    is_record = columns.is_record({key.value: _shape(value) for key, value in item.value})
    if name not in columns.names():
        return value_at(item, name.removeprefix("record."))
    role, column = columns.names()[name]
    if is_record:
        return value_at(value_at(item, role), column)
    found = (value_at(item, each) for each in (name, f"{role}.{column}"))
    return next((each for each in found if each is not None), None)


def _shape(node: Any) -> Any:
    """As much of a node's value as tells rows and records apart."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: None for key, _ in node.value}
    return None if node.tag == "tag:yaml.org,2002:null" else node.tag


def _place(items: Sequence[tuple[int | NewItem, Compared]], row: Compared) -> int:
    """Where a new row goes: behind the row of its key that was found before it, else before the one found after it."""
    of_key = [(at, each.place) for at, (_, each) in enumerate(items) if each.group == row.group]
    before = [at for at, place in of_key if place is not None and place < (row.place or 0)]
    if before:
        return before[-1] + 1
    return of_key[0][0] if of_key else len(items)


def _text(row: Compared, found: Found) -> str:
    """A row that was found, with the columns that the test names; all of them, if it names none."""
    cells, columns = row.found or {}, found.columns
    no_key, deleted = columns.field_name("key"), columns.field_name("value")
    named = dict.fromkeys(name for each in found.rows for name in each.expected or () if name not in (no_key, deleted))
    key = [columns.name_of("key", name) for name in columns.key]
    names = list(named or [*key, *(columns.name_of("value", name) for name in columns.value)])
    if columns.is_deleted(cells):
        names = [*key, deleted]
    if cells.get(no_key, "") is None:
        names = [no_key, *(name for name in names if name not in key)]
    written = {name: _value(columns, name, cells[name]) for name in names if name in cells}
    return flow_text(_as_record(written, columns) if any(name.startswith("record.") for name in written) else written)


def _as_record(cells: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Cells in record form: a field of the record has the name of a column, which a row by name would give."""
    record: dict[str, Any] = {}
    for name, value in cells.items():
        role, column = columns.names().get(name, ("", ""))
        if role:
            record.setdefault(role, {})[column] = value
        else:
            record[name.removeprefix("record.")] = value
    return record


def _value(columns: Columns, name: str, value: Any) -> Any:
    return moment_text(value) if columns.is_time(name) and isinstance(value, int) else value
