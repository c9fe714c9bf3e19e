"""Reads JSON strictly. Everything that a case must not contain is refused with a sentence.

Refused are unknown and repeated keys, NaN and infinities, fractions where a count belongs, booleans as numbers, and
numbers beyond 64 bits.
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
    """A case that cannot be read. `where`: the place in it, such as `clients[0].threads`; "" for the whole case."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where = where


def parse(line: bytes) -> Any:
    """The value of a line of JSON. Raises CaseError."""
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CaseError("", f"not UTF-8: byte {error.object[error.start]:#04x} at {error.start}") from None
    except json.JSONDecodeError as error:
        raise CaseError("", f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}") from None
    except RecursionError:
        raise CaseError("", "nested too deeply") from None
    except ValueError:  # Python's own limit to the digits of a number
        raise CaseError("", "a number that does not fit into 64 bits") from None


def task_id(value: Any, where: str) -> TaskId:
    """`0_1`: subtopology and partition. Raises CaseError."""
    match = _TASK_ID.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise CaseError(where, f"expected a task id such as 0_1, found {shown(value)}")
    return TaskId(int(match[1]), int(match[2]))


def text(value: Any, where: str) -> str:
    """A text that is not empty. Raises CaseError."""
    if not isinstance(value, str) or not value:
        raise CaseError(where, f"expected a text, found {shown(value)}")
    return value


def flag(value: Any, where: str) -> bool:
    """True or false. Raises CaseError."""
    if not isinstance(value, bool):
        raise CaseError(where, f"expected true or false, found {shown(value)}")
    return value


def integer(least: int) -> Callable[[Any, str], int]:
    """Reads a whole number from `least` on that fits into 64 bits."""

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
    """Reads what `read` reads, or null."""
    return lambda value, where: None if value is None else read(value, where)


def items(value: Any, where: str) -> Iterator[tuple[Any, str]]:
    """The items of a list, each with its place. Raises CaseError."""
    if not isinstance(value, list):
        raise CaseError(where, f"expected a list, found {shown(value)}")
    return ((item, f"{where}[{number}]") for number, item in enumerate(value))


def distinct(read: Callable[[Any, str], _Read]) -> Callable[[Any, str], tuple[_Read, ...]]:
    """Reads a list whose items `read` reads, none of them twice."""

    def read_all(value: Any, where: str) -> tuple[_Read, ...]:
        found: dict[_Read, None] = {}
        for item, place in items(value, where):
            each = read(item, place)
            if each in found:
                raise CaseError(place, f"{shown(item)} is there twice")
            found[each] = None
        return tuple(found)

    return read_all


class Fields:
    """The fields of an object, whose keys must be among `known`. `where`: its place in the case."""

    def __init__(self, value: Any, where: str, known: Iterable[str]) -> None:
        """Raises CaseError."""
        if not isinstance(value, dict):
            raise CaseError(where, f"expected an object, found {shown(value)}")
        self._value: dict[str, Any] = value
        self.where = where
        names = tuple(known)
        for key in value:
            if key not in names:
                hint = guess(key, names, f"known: {', '.join(names)}")
                raise CaseError(where, f"unknown key {shown(key)}, {hint}")

    def read(self, key: str, read: Callable[[Any, str], _Read]) -> _Read:
        """A field that must be there. Raises CaseError."""
        if key not in self._value:
            raise CaseError(self.where, f"{key!r} is missing")
        return read(self._value[key], self.place(key))

    def get(self, key: str, read: Callable[[Any, str], _Read], default: _Default) -> _Read | _Default:
        """A field, or `default` where it is not there. Raises CaseError."""
        return read(self._value[key], self.place(key)) if key in self._value else default

    def place(self, key: str) -> str:
        """Where a field is."""
        return f"{self.where}.{key}" if self.where else key


def shown(value: Any) -> str:
    """A value in a message: short ones as JSON, lists and objects by what they are."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) > LONGEST:
        return "a number that does not fit into 64 bits"
    if isinstance(value, str) and len(value) > _SHOWN:
        value = f"{value[:_SHOWN]}..."
    return json.dumps(value)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise CaseError("", f"the key {shown(key)} is there twice in one object")
            seen.add(key)
    return found


def _no_constant(name: str) -> NoReturn:
    raise CaseError("", f"not JSON: {name} is no number")


# One for all lines: each decoder is a cycle that only a collection frees.
_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
