"""Writes what was found into the file of a test: only cells that differ, rows that are new, and rows that are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...runtime.records.schema import WINDOW_COLUMNS
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
        cells = _cells(present[row.number], row)
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


def _cells(item: Any, row: Compared) -> list[Edit] | None:
    """The cells of a row that differ, with what was found; None if that has no such cells."""
    edits = []
    for name in row.differing:
        role, _, column = name.rpartition(".")
        roles = (role,) if role else ("key", "value")
        nested = [value_at(value_at(item, each), column) for each in roles if value_at(item, each) is not None]
        node = next((each for each in (value_at(item, name), *nested) if each is not None), None)
        if node is None or name not in (row.found or {}) or name in ("key", "value"):
            return None
        edits.append(replaced(node, _value(name, (row.found or {})[name])))
    return edits


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
    named = dict.fromkeys(name for each in found.rows for name in each.expected or ())
    key = [columns.name_of("key", name) for name in columns.key]
    names = list(named or [*key, *(columns.name_of("value", name) for name in columns.value)])
    if cells.get("value", "") is None:
        names = [*key, "value"]
    if cells.get("key", "") is None:
        names = ["key", *(name for name in names if name not in ("key", *key))]
    return flow_text({name: _value(name, cells[name]) for name in names if name in cells})


def _value(name: str, value: Any) -> Any:
    return moment_text(value) if name in (*WINDOW_COLUMNS, "timestamp") and isinstance(value, int) else value
