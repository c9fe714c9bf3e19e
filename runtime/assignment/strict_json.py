"""Strict reading of JSON. Invalid values raise an error with their location.

Invalid are unknown and repeated keys, NaN and infinities, fractions for counts, booleans for numbers, and numbers
beyond 64 bits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from ...errors import HeadwaterError
from ...suggestions import guess
from ..task_id import TaskId

LONGEST = 2**63 - 1

_TASK_ID = re.compile(r"(0|[1-9][0-9]{0,8})_(0|[1-9][0-9]{0,8})", re.ASCII)
_SHOWN = 40
_Read = TypeVar("_Read")
_Default = TypeVar("_Default")


class CaseError(HeadwaterError):
    """An unreadable case. `where`: the location in it, such as `clients[0].threads`; "" for the whole case."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where = where


def parse(line: bytes) -> Any:
    """The value in a line of JSON. Raises CaseError."""
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CaseError("", f"not UTF-8: byte {error.object[error.start]:#04x} at {error.start}") from None
    except json.JSONDecodeError as error:
        raise CaseError("", f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}") from None
    except RecursionError:
        raise CaseError("", "nested too deeply") from None
    except ValueError:  # Python's limit of the digits of a number
        raise CaseError("", "a number that does not fit into 64 bits") from None


def task_id(value: Any, where: str) -> TaskId:
    """`0_1`: subtopology and partition. Raises CaseError."""
    match = _TASK_ID.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise CaseError(where, f"expected a task id such as 0_1, found {shown(value)}")
    return TaskId(int(match[1]), int(match[2]))


def text(value: Any, where: str) -> str:
    """A non-empty text. Raises CaseError."""
    if not isinstance(value, str) or not value:
        raise CaseError(where, f"expected a text, found {shown(value)}")
    return value


def flag(value: Any, where: str) -> bool:
    """True or false. Raises CaseError."""
    if not isinstance(value, bool):
        raise CaseError(where, f"expected true or false, found {shown(value)}")
    return value


def integer(least: int) -> Callable[[Any, str], int]:
    """A reader of 64-bit integers of at least `least`."""

    def read(value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= LONGEST:
            raise CaseError(where, f"expected a whole number of {least} or more, found {shown(value)}")
        return value

    return read


def number(value: Any, where: str) -> float:
    """A finite number of 0 or more. Raises CaseError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST:
        raise CaseError(where, f"expected a number of 0 or more, found {shown(value)}")
    return float(value)


def optional(read: Callable[[Any, str], _Read]) -> Callable[[Any, str], _Read | None]:
    """A reader of null, or of what `read` reads."""
    return lambda value, where: None if value is None else read(value, where)


def items(value: Any, where: str) -> Iterator[tuple[Any, str]]:
    """The items of a list with their locations. Raises CaseError."""
    if not isinstance(value, list):
        raise CaseError(where, f"expected a list, found {shown(value)}")
    return ((item, f"{where}[{number}]") for number, item in enumerate(value))


def distinct(read: Callable[[Any, str], _Read]) -> Callable[[Any, str], tuple[_Read, ...]]:
    """A reader of a list of distinct items, each read by `read`."""

    def read_all(value: Any, where: str) -> tuple[_Read, ...]:
        distinct_items: dict[_Read, None] = {}
        for json_item, location in items(value, where):
            item = read(json_item, location)
            if item in distinct_items:
                raise CaseError(location, f"{shown(json_item)} is there twice")
            distinct_items[item] = None
        return tuple(distinct_items)

    return read_all


class Fields:
    """The fields of an object. `valid_keys`: all valid keys. `where`: its location in the case."""

    def __init__(self, value: Any, where: str, valid_keys: Iterable[str]) -> None:
        """Raises CaseError."""
        if not isinstance(value, dict):
            raise CaseError(where, f"expected an object, found {shown(value)}")
        self._value: dict[str, Any] = value
        self.where = where
        names = tuple(valid_keys)
        for key in value:
            if key not in names:
                hint = guess(key, names, f"known: {', '.join(names)}")
                raise CaseError(where, f"unknown key {shown(key)}, {hint}")

    def read(self, key: str, read: Callable[[Any, str], _Read]) -> _Read:
        """A required field. Raises CaseError."""
        if key not in self._value:
            raise CaseError(self.where, f"{key!r} is missing")
        return read(self._value[key], self.location(key))

    def get(self, key: str, read: Callable[[Any, str], _Read], default: _Default) -> _Read | _Default:
        """An optional field, or `default`. Raises CaseError."""
        return read(self._value[key], self.location(key)) if key in self._value else default

    def location(self, key: str) -> str:
        """The location of a field."""
        return f"{self.where}.{key}" if self.where else key


def shown(value: Any) -> str:
    """A value in a message: as JSON, shortened; lists and objects by their type."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) > LONGEST:
        return "a number that does not fit into 64 bits"
    if isinstance(value, str) and len(value) > _SHOWN:
        value = f"{value[:_SHOWN]}..."
    return json.dumps(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise CaseError("", f"the key {shown(key)} is there twice in one object")
            seen.add(key)
    return value


def _no_constant(name: str) -> NoReturn:
    raise CaseError("", f"not JSON: {name} is no number")


# One decoder for all lines: it is a reference cycle that only a garbage collection frees.
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
