"""Rows in tests: columns by name, or the record form. Both are converted to the record form, with named columns only.

A row by name may also have `timestamp`, `partition` and `headers`, and `value: null` for a tombstone, unless a column
has that name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ...suggestions import did_you_mean
from ..records.arrays import BadValueError, shown
from ..records.record_json import FIELDS as RECORD_FIELDS
from ..records.record_json import is_record, key_to_json, to_json
from ..records.schema import is_bound
from ..records.types import TIMESTAMP
from ..records.values import from_json, parse_text

Cells = Mapping[str, Any]
"""A flat row: name of a cell -> value in JSON's form; times of records and windows in ms.

Cells are columns (`Columns.name_of`) and fields of the record (`Columns.field_name`): `timestamp`, `partition`,
`headers`, and `key` and `value`, which are present only if they are null.
"""

FIELDS = ("timestamp", "partition", "headers")
"""The cells of a record that are not columns."""

_ROLES = ("key", "value")


class UnfitRowError(Exception):
    """A row that does not fit. `path`: the keys that lead to the cell; empty for the whole row.

    `unknown`: the cell's name is wrong, not its value.
    """

    def __init__(self, path: tuple[str, ...], cause: str, hint: str | None = None, *, unknown: bool = False) -> None:
        super().__init__(cause)
        self.path = path
        self.cause = cause
        self.hint = hint
        self.unknown = unknown


@dataclass(frozen=True)
class Columns:
    """The columns of a topic or a store, by role. `of`: the name of the topic or store, for messages."""

    of: str
    key: Mapping[str, pa.DataType]
    value: Mapping[str, pa.DataType]

    def name_of(self, role: str, column: str) -> str:
        """The name of a column's cell: the column's, or `key.x` and `value.x` if key and value both have it."""
        both = column in self.key and column in self.value
        return f"{role}.{column}" if both else column

    def field_name(self, field: str) -> str:
        """The name of the cell of a record's field: the field's, or `record.x` if a column has that name."""
        return f"record.{field}" if field in self.key or field in self.value else field

    def is_record(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is in record form, see `record_json.is_record`."""
        return is_record(row, self.key, self.value)

    def is_deleted(self, cells: Cells) -> bool:
        """Whether these are the cells of a tombstone."""
        return cells.get(self.field_name("value"), "") is None

    def is_time(self, cell: str) -> bool:
        """Whether a cell is a time in ms: the record's, or a bound of its window."""
        role, column = self.names().get(cell, ("", ""))
        if not role:
            return cell == self.field_name("timestamp")
        return role == "key" and is_bound(column, self.key[column])

    def names(self) -> dict[str, tuple[str, str]]:
        """The names that a row may use for columns: name -> role and column."""
        names = {}
        for role, columns in ((_ROLES[0], self.key), (_ROLES[1], self.value)):
            for column in columns:
                names[f"{role}.{column}"] = (role, column)
                names[self.name_of(role, column)] = (role, column)
        return names

    def type_of(self, role: str, column: str) -> pa.DataType:
        """The type of a column."""
        return (self.key if role == "key" else self.value)[column]


def record_form(columns: Columns, row: Mapping[str, Any], *, given: bool = False) -> dict[str, Any]:
    """A row in record form, with the columns that it names. An input row (`given`) must have a value or null.

    Raises UnfitRowError.
    """
    names = columns.names()
    nested = any(isinstance(row.get(role), Mapping) and role not in names for role in _ROLES)
    nested |= row.keys() <= RECORD_FIELDS and names.keys().isdisjoint(row)
    if nested or columns.is_record(row):
        if given and "value" not in row:
            raise UnfitRowError((), "the value is missing (null deletes)")
        return _of_record(columns, row)
    record: dict[str, Any] = {}
    named = {names[name][0] for name in row if name in names}
    for name, value in row.items():
        if name not in names and name in named:
            raise UnfitRowError((name,), f"the {name} is null, but the row has columns of it")
        if name in names:
            role, column = names[name]
            record.setdefault(role, {})[column] = value
        elif name in FIELDS or (name in _ROLES and value is None):
            record[name] = value
        else:
            raise _unknown((name,), columns, name)
    return _with_times(columns, {"value": {}, **record} if given else record)


def _of_record(columns: Columns, row: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in row.items():
        if name not in (*_ROLES, *FIELDS, "offset"):
            roles = [role for role, names in zip(_ROLES, (columns.key, columns.value), strict=True) if name in names]
            if not roles:
                raise _unknown((name,), columns, name)
            cause = f"the column '{name}' stands beside `key` or `value`, which contain all of their columns"
            raise UnfitRowError((name,), cause, f"Write it under `{roles[-1]}`.", unknown=True)
        if name in _ROLES and not isinstance(value, Mapping | None):
            raise UnfitRowError((name,), f"the {name} must be a mapping of columns or null")
        declared = columns.key if name == "key" else columns.value
        for column in value or () if name in _ROLES else ():
            if column not in declared:
                hint = did_you_mean(column, declared) or _listed(declared)
                raise UnfitRowError(
                    (name, column), f"there is no column '{column}' in the {name} of {columns.of}", hint, unknown=True
                )
    return _with_times(columns, {name: value for name, value in row.items() if name != "offset"})


def _unknown(path: tuple[str, ...], columns: Columns, name: str) -> UnfitRowError:
    candidates = [cell for cell in columns.names() if "." not in cell] or list(columns.names())
    both = name in columns.key and name in columns.value
    if both:
        hint = f"Write key.{name} or value.{name}."
        return UnfitRowError(path, f"the key and the value of {columns.of} have a column '{name}'", hint, unknown=True)
    return UnfitRowError(
        path,
        f"there is no column '{name}' in {columns.of}",
        did_you_mean(name, candidates) or _listed(candidates),
        unknown=True,
    )


def _listed(names: Sequence[str] | Mapping[str, Any]) -> str | None:
    return f"It has {', '.join(names)}." if names else None


def _with_times(columns: Columns, record: dict[str, Any]) -> dict[str, Any]:
    """The record with its time and those of its window in ms."""
    if record.get("timestamp") is not None:
        record["timestamp"] = moment(record["timestamp"], ("timestamp",))
    key = record.get("key")
    if key:
        record["key"] = {
            name: moment(value, ("key", name)) if is_bound(name, columns.key[name]) else value
            for name, value in key.items()
        }
    return record


def moment(value: Any, path: tuple[str, ...]) -> int | None:
    """A time in ms: an integer, or a text in ISO 8601. Raises UnfitRowError."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    hint = "Write it as 2024-05-01T08:00:00Z, in quotes, or in milliseconds since 1970."
    try:
        micros: int = from_json([value], TIMESTAMP).cast(pa.int64())[0].as_py()
    except BadValueError:
        raise UnfitRowError(path, f"{shown(value)} is no time", hint) from None
    if micros % 1000:
        raise UnfitRowError(path, f"{value!r} has fractions of a millisecond", hint)
    return micros // 1000


def moment_text(milliseconds: int) -> str | int:
    """A time as tests write it: `2024-05-01T08:00:00Z`. A time outside of the calendar stays a number."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return milliseconds
    return time.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds").replace("+00:00", "Z")


def with_time(record: Mapping[str, Any], timestamp: str | None, kind: pa.DataType | None, now: int) -> dict[str, Any]:
    """An input record with a time. Without one, its timestamp column or the record gets `now` (ms).

    `timestamp`, `kind`: name and type of the topic's timestamp column.
    """
    if record.get("timestamp") is not None:
        return dict(record)
    value = record.get("value")
    if timestamp is None or kind is None or value is None:
        return {**record, "timestamp": now}
    if timestamp in value:
        return dict(record)
    given = now if pa.types.is_integer(kind) else moment_text(now)
    if pa.types.is_date(kind) and isinstance(given, str):
        given = given[:10]
    return {**record, "value": {**value, timestamp: given}}


def cells_of(columns: Columns, record: Mapping[str, Any], *, written: bool = False) -> Cells:
    """A record in record form as cells. `written`: by a person, so values are converted to their type's form.

    Raises UnfitRowError.
    """
    cells: dict[str, Any] = {}
    for role in _ROLES:
        if role not in record:
            continue
        if record[role] is None:
            cells[columns.field_name(role)] = None
            if role == "key":  # a key whose columns are all null is a null key
                cells |= dict.fromkeys(columns.name_of(role, column) for column in columns.key)
            continue
        for column, value in record[role].items():
            data_type = columns.type_of(role, column)
            converted = _converted(data_type, (role, column), value) if written else value
            cells[columns.name_of(role, column)] = _in_key_order(converted, data_type)
    if written:
        _check_fields(record)
    return cells | {columns.field_name(name): record[name] for name in FIELDS if name in record}


def _check_fields(record: Mapping[str, Any]) -> None:
    """Raise UnfitRowError for an impossible partition or headers. The time was checked before."""
    partition, headers = record.get("partition"), record.get("headers", {})
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool) or partition < 0):
        raise UnfitRowError(("partition",), f"{shown(partition)} is no partition")
    if not isinstance(headers, Mapping) or not all(isinstance(value, str) for value in headers.values()):
        raise UnfitRowError(("headers",), f"{shown(headers)} is not an object of texts", "Write {} for no headers.")


def _converted(data_type: pa.DataType, path: tuple[str, ...], value: Any) -> Any:
    role, name = path
    if role == "key" and is_bound(name, data_type):
        return value
    try:
        array = from_json([value], data_type)
    except BadValueError as error:
        raise UnfitRowError(path, error.cause, way_out(value, data_type)) from None
    return (key_to_json(name, array) if role == "key" else to_json(array))[0]


def _in_key_order(value: Any, data_type: pa.DataType) -> Any:
    """A value in JSON's form with the entries of its maps sorted by key: a map has no order."""
    if value is None or not pa.types.is_nested(data_type):
        return value
    if pa.types.is_struct(data_type):
        return {field.name: _in_key_order(value[field.name], field.type) for field in data_type}
    if pa.types.is_list(data_type):
        return [_in_key_order(item, data_type.value_type) for item in value]
    if isinstance(value, Mapping):
        return {key: _in_key_order(item, data_type.item_type) for key, item in value.items()}
    entry = pa.struct([("key", data_type.key_type), ("value", data_type.item_type)])
    return sorted((_in_key_order(item, entry) for item in value), key=lambda item: _order_of(item["key"]))


def _order_of(key: Any) -> tuple[bool, Any, str]:
    """Sorts numbers by size, other keys by text."""
    number = isinstance(key, int | float)
    return (number, key if number else 0, repr(key))


def way_out(value: Any, data_type: pa.DataType) -> str | None:
    """A hint for a value that is no `data_type`, if only quotes are missing or superfluous."""
    if pa.types.is_string(data_type) and not isinstance(value, str | Mapping | Sequence):
        return "Put it in quotes."
    number = pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_boolean(data_type)
    return "Write it without quotes." if number and isinstance(value, str) and _is_one(value, data_type) else None


def _is_one(text: str, data_type: pa.DataType) -> bool:
    try:
        parse_text(pa.array([text]), data_type)
    except BadValueError:
        return False
    return True
