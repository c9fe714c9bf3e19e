"""Writes what was found into the file of a test: only cells that differ, rows that are new, and rows that are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ...runtime.testing.comparing import Compared
from ...runtime.testing.rows import Columns, moment_text
from .yaml_edits import Edit, NewItem, composed, edited, flow_text, key_at, list_edits, replaced, value_at


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
