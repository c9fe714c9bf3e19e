"""Rows as objects for a project's functions: read-only, with an attribute for each column."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NoReturn

import pyarrow as pa

from ...suggestions import guess
from ..records.arrays import Bools
from .errors import unfit_value
from .results import UnfitValueError, convert_value, converter, to_column, to_python, values_by_name

Row = Any
"""An object with an attribute for each column, made by RowType."""


class RowType:
    """The type of rows with these columns. Rows are equal if their columns are; they print as `Row(a=1, b=None)`.

    As with named tuples, `_replace` returns a copy with other values, and `_asdict` a dict by column.
    """

    def __init__(self, columns: Mapping[str, pa.DataType]) -> None:
        self.columns = dict(columns)
        self._converters = tuple(converter(data_type) for data_type in columns.values())
        self._class = _row_class(tuple(columns.items()))
        self._nested = any(pa.types.is_nested(data_type) for data_type in columns.values())

    def rows(self, columns: Mapping[str, pa.Array], exists: Bools) -> list[Row | None]:
        """A row for each position in the columns; None where `exists` is false. Raises UnfitRowError."""
        values = [self._python(name, columns[name]) for name in self.columns]
        new, kind = tuple.__new__, self._class
        if not values:
            return [new(kind) if is_ else None for is_ in exists.tolist()]
        if exists.all():
            return [new(kind, row) for row in zip(*values, strict=True)]
        return [
            new(kind, row) if is_ else None for row, is_ in zip(zip(*values, strict=True), exists.tolist(), strict=True)
        ]

    def of(self, value: Any) -> Row:
        """A row from a mapping by column, or from an object with the columns as attributes. Raises UnfitValueError."""
        if type(value) is self._class and not self._nested:
            return value
        converted = []
        # The usual case, several times faster.
        if type(value) is dict and value.keys() == self.columns.keys():
            values = [value[name] for name in self.columns]
        else:
            values = convert_value(partial(values_by_name, names=self.columns), value)
        for name, given, convert in zip(self.columns, values, self._converters, strict=True):
            try:
                converted.append(None if given is None else convert(given))
            except UnfitValueError as error:
                raise UnfitValueError(f"{name}: {error.cause}") from None
            except BaseException as error:
                raise unfit_value(given, error, name) from error
        return tuple.__new__(self._class, converted)

    def copy(self, row: Row | None) -> Row | None:
        """The row for a call of a function, which may change lists and dicts in it."""
        return copied(row) if self._nested and row is not None else row

    def made(self, values: Iterable[Any]) -> Row:
        """A row of values that this module has converted, in the order of the columns."""
        return tuple.__new__(self._class, values)

    def to_columns(self, rows: Sequence[Row | None]) -> dict[str, pa.Array]:
        """The columns of the rows, null where a row is None."""
        return {
            name: to_column([None if row is None else tuple.__getitem__(row, number) for row in rows], data_type)
            for number, (name, data_type) in enumerate(self.columns.items())
        }

    def _python(self, name: str, column: pa.Array) -> list[Any]:
        try:
            return to_python(column)
        except UnfitValueError as error:
            row = next(row for row in range(len(column)) if not _fits(column.slice(row, 1)))
            raise UnfitRowError(row, f"{name} holds {error.cause}") from None


class UnfitRowError(UnfitValueError):
    """A row that cannot be converted to Python. `row`: the first such row."""

    def __init__(self, row: int, cause: str) -> None:
        super().__init__(cause)
        self.row = row


def _fits(column: pa.Array) -> bool:
    try:
        to_python(column)
    except UnfitValueError:
        return False
    return True


def copied(row: Row) -> Row:
    """The same row with its own lists and dicts."""
    return tuple.__new__(type(row), map(_copy, tuple.__iter__(row)))


def _copy(value: Any) -> Any:
    if type(value) is list:
        return [_copy(item) for item in value]
    return {name: _copy(item) for name, item in value.items()} if type(value) is dict else value


# Rows with the same columns have the same class: a step may return a row of another one.
@lru_cache(maxsize=1024)
def _row_class(columns: tuple[tuple[str, pa.DataType], ...]) -> type[tuple[Any, ...]]:
    """A tuple with named positions. Unlike in a NamedTuple, the names may be any text."""
    names = [name for name, _ in columns]

    def show(self: tuple[Any, ...]) -> str:
        return f"Row({', '.join(f'{name}={value!r}' for name, value in zip(names, self, strict=True))})"

    def as_dict(self: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(names, self, strict=True))

    def replace(self: tuple[Any, ...], **values: Any) -> Row:
        return RowType(dict(columns)).of({**as_dict(self), **values})

    methods = {"__repr__": show, "_asdict": as_dict, "_replace": replace, **_usage_errors(names)}
    # Positions of a named tuple are read without `__getitem__`, which is Python code here.
    plain = namedtuple("plain", [f"place{number}" for number in range(len(names))])  # type: ignore[misc]
    places = {name: getattr(plain, f"place{number}") for number, name in enumerate(names)}
    return type("Row", (tuple,), {"__slots__": (), **methods, **places})


def _usage_errors(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """The methods of a row that report its wrong use."""

    def unknown(_: tuple[Any, ...], name: str) -> NoReturn:
        raise AttributeError(f"the row has no column {name!r}: {guess(name, names, 'it has ' + ', '.join(names))}")

    def read_only(_: tuple[Any, ...], name: str, value: Any) -> NoReturn:  # noqa: ARG001 - the name of `__setattr__`
        raise AttributeError(f"a row is read-only: `row._replace({name}=...)` gives a copy with another value")

    def item(self: tuple[Any, ...], place: Any) -> Any:
        if isinstance(place, str):
            attribute = f"`row.{place}`" if place.isidentifier() else f"`getattr(row, {place!r})`"
            raise TypeError(f"the columns of a row are its attributes: {attribute}")
        return tuple.__getitem__(self, place)

    return {"__getattr__": unknown, "__setattr__": read_only, "__getitem__": item}
