"""Writes actual rows into the expectations of tests, in the text of their YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ...runtime.testing.comparing import Compared
from ...runtime.testing.rows import Columns, moment_text

# Edits of values in the text of a YAML file. Comments, quotes and blank lines stay.
#
# A library that loads and dumps YAML (ruamel.yaml) would format the whole file, with its own folds and quotes. Here the
# parser only gives the positions of values, and the text around them stays.

_PLAIN = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./ -]*[A-Za-z0-9_./])?")
_NOT_PLAIN = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"})
"""Strings that some YAML readers take for another value."""


@dataclass(frozen=True)
class Edit:
    """Replace the characters `[start, end)` by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class NewItem:
    """A new item of a list. `instead`: the index of the item that it replaces."""

    text: str
    instead: int | None = None


def edited(text: str, edits: Sequence[Edit]) -> str:
    """The text with edits, which must not overlap."""
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def composed(text: str) -> Any:
    """The nodes of a file's document, with their marks."""
    return yaml.compose(text, Loader=yaml.SafeLoader)


def value_at(node: Any, name: str) -> Any:
    """The value of a key of a mapping; None if the key is missing."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == name), None)


def key_at(node: Any, name: str) -> Any:
    """A key of a mapping."""
    return next(key for key, _ in node.value if key.value == name)


def replaced(node: Any, value: Any) -> Edit:
    """The edit that replaces a node by a value."""
    return Edit(node.start_mark.index, end_of(node), flow_text(value))


def end_of(node: Any) -> int:
    """The end of a node's text. The parser's own end of a block includes the comments behind it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return end_of(last[1] if isinstance(last, tuple) else last)


def list_edits(text: str, holder: Any, name: str, items: Sequence[int | NewItem]) -> list[Edit]:
    """The edits for a list at a key of a mapping. `items`: indexes of present items in their order, and new items."""
    key, sequence = key_at(holder, name), value_at(holder, name)
    colon = text.index(":", key.end_mark.index) + 1
    end = end_of(sequence)
    if not items:
        return [Edit(colon, end, " []")] if sequence.value else []
    if sequence.flow_style or not sequence.value:
        texts = [item.text if isinstance(item, NewItem) else _yaml_text(text, sequence.value[item]) for item in items]
        if holder.flow_style:
            return [Edit(colon, end, f" [{', '.join(texts)}]")]
        blank = "\n" + " " * (key.start_mark.column + 2)
        return [Edit(colon, end, "".join(f"{blank}- {item}" for item in texts))]
    return _block_edits(text, sequence.value, items)


def _block_edits(text: str, present: Sequence[Any], items: Sequence[int | NewItem]) -> list[Edit]:
    kept = {item.instead if isinstance(item, NewItem) else item for item in items}
    removed = set(range(len(present))) - kept
    edits = [Edit(_line_start(text, _dash(text, present[n])), _line_end(text, end_of(present[n])), "") for n in removed]
    at = _line_start(text, _dash(text, present[0]))
    blank = " " * (_dash(text, present[0]) - at)
    for item in items:
        number = item.instead if isinstance(item, NewItem) else item
        if isinstance(item, NewItem):
            if number is None:
                edits.append(Edit(at, at, f"{'' if text[at - 1 : at] == chr(10) else chr(10)}{blank}- {item.text}\n"))
            else:
                edits.append(Edit(present[number].start_mark.index, end_of(present[number]), item.text))
        if number is not None:
            at = _line_end(text, end_of(present[number]))
    return _joined(edits)


def _joined(edits: Sequence[Edit]) -> list[Edit]:
    """The edits, with those at the same position joined in their order."""
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
    """The end of the line of the character before `at`, with its line break."""
    end = text.find("\n", max(at - 1, 0))
    return len(text) if end < 0 else end + 1


def _key_text(name: str) -> str:
    """A key. `n` and `y`, which are common names of columns, get no quotes."""
    return name if len(name) == 1 and name.isalpha() else flow_text(name)


def flow_text(value: Any) -> str:
    """A value as one line of YAML that all readers read in the same way."""
    match value:
        case dict():
            return "{" + ", ".join(f"{_key_text(name)}: {flow_text(item)}" for name, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(flow_text, value)) + "]"
        case str() if _PLAIN.fullmatch(value) and value.lower() not in _NOT_PLAIN:
            return value
    return json.dumps(value, ensure_ascii=False)


# Updates of a test's file: only cells that differ, and rows that are new or missing.


@dataclass(frozen=True)
class Found:
    """The actual results for an entry of `expect` at `line` of the file. `kind`: topic, store or dropped."""

    kind: str
    line: int
    rows: Sequence[Compared]
    columns: Columns


def updated(text: str, found: Sequence[Found]) -> str:
    """The text of a file with actual results instead of the expected ones."""
    edits: list[Edit] = []
    entries = _entries(composed(text))
    for result in found:
        entry = entries[result.line, result.kind]
        edits += _dropped(entry, result) if result.kind == "dropped" else _rows(text, entry, result)
    return edited(text, edits)


def _entries(document: Any) -> dict[tuple[int, str], Any]:
    """The entries of all `expect`, by the line and the name of their key: topic, store or dropped."""
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
        if cells is None:  # one of the two is a deletion, with other cells
            items.append((NewItem(_text(row, found), row.number), row))
        else:
            edits += cells
            items.append((row.number, row))
    for row in found.rows:
        if row.kind == "unexpected":
            items.insert(_index(items, row), (NewItem(_text(row, found)), row))
    rows = [item for item, _ in items]
    if rows != list(range(len(present))):
        if edits and value_at(entry, "rows").flow_style:  # the whole list is replaced
            rows = [item if isinstance(item, NewItem) else NewItem(_text(row, found)) for item, row in items]
            edits = []
        edits += list_edits(text, entry, "rows", rows)
    return edits


def _cells(item: Any, row: Compared, columns: Columns) -> list[Edit] | None:
    """The edits of cells that differ; None if the actual row does not have these cells."""
    edits = []
    roles = {columns.field_name(role) for role in ("key", "value")}
    for name in row.differing:
        node = _node(item, name, columns)
        if node is None or name not in (row.found or {}) or name in roles:
            return None
        edits.append(replaced(node, _value(columns, name, (row.found or {})[name])))
    return edits


def _node(item: Any, name: str, columns: Columns) -> Any:
    """The node of a cell in a row of the file, in either form; None if it is missing."""
    is_record = columns.is_record({key.value: _shape(value) for key, value in item.value})
    if name not in columns.names():
        return value_at(item, name.removeprefix("record."))
    role, column = columns.names()[name]
    if is_record:
        return value_at(value_at(item, role), column)
    nodes = (value_at(item, key) for key in (name, f"{role}.{column}"))
    return next((node for node in nodes if node is not None), None)


def _shape(node: Any) -> Any:
    """The part of a node's value that distinguishes rows from records."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: None for key, _ in node.value}
    return None if node.tag == "tag:yaml.org,2002:null" else node.tag


def _index(items: Sequence[tuple[int | NewItem, Compared]], row: Compared) -> int:
    """The index of a new row: behind the previous actual row of its key, else before the next one."""
    of_key = [(at, other.place) for at, (_, other) in enumerate(items) if other.group == row.group]
    before = [at for at, place in of_key if place is not None and place < (row.place or 0)]
    if before:
        return before[-1] + 1
    return of_key[0][0] if of_key else len(items)


def _text(row: Compared, found: Found) -> str:
    """An actual row, with the columns named in the test, or all columns if it names none."""
    cells, columns = row.found or {}, found.columns
    no_key, deleted = columns.field_name("key"), columns.field_name("value")
    expected = (name for other in found.rows for name in other.expected or ())
    named = dict.fromkeys(name for name in expected if name not in (no_key, deleted))
    key = [columns.name_of("key", name) for name in columns.key]
    names = list(named or [*key, *(columns.name_of("value", name) for name in columns.value)])
    if columns.is_deleted(cells):
        names = [*key, deleted]
    if cells.get(no_key, "") is None:
        names = [no_key, *(name for name in names if name not in key)]
    written = {name: _value(columns, name, cells[name]) for name in names if name in cells}
    return flow_text(_as_record(written, columns) if any(name.startswith("record.") for name in written) else written)


def _as_record(cells: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """Cells in record form, for a record field with the name of a column."""
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
