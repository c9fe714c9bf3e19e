"""Reads a JSON file that somebody else may have written, cut off or changed, into a frozen dataclass.

Commits have checksums, so `dataclass_json` need not look at each value of theirs. Manifests and plans have none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ...dataclass_json import from_plain

T = TypeVar("T")

_WORDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


class DamagedFileError(Exception):
    """A file that does not hold what it should; the text says where and why."""


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file. Raises OSError, DamagedFileError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedFileError(f"byte {error.start} is not UTF-8") from error
    if not text.strip():
        raise DamagedFileError("it is empty")
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise DamagedFileError(f"line {error.lineno}, column {error.colno} is no JSON ({error.msg})") from error
    except RecursionError as error:
        raise DamagedFileError("its JSON is nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise DamagedFileError(f"it is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise DamagedFileError(f"it holds {_WORDS[type(found)]} and not an object")
    return found


def fitting(kind: type[T], plain: Any) -> T:
    """The instance of a dataclass from plain JSON values, each of which must be of its field's type.

    Raises DamagedFileError, which names the first one that is not.
    """
    _require(kind, plain, "")
    return from_plain(kind, plain)


def _require(kind: Any, plain: Any, at: str) -> None:
    origin, args = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        _require_fields(kind, plain, at)
    elif origin is UnionType:
        if plain is not None and plain != {}:
            (other,) = (each for each in args if each is not NoneType)
            _require(other, plain, at)
    elif origin is Mapping:
        for key, value in _of(dict, plain, at).items():
            _require(args[0], key, f"a key of {at}")
            _require(args[1], value, f"{at}.{key}")
    elif origin is tuple:
        _require_items(args, plain, at)
    elif origin is Literal:
        if plain not in args:
            raise DamagedFileError(f"{at} is {plain!r} and not one of {', '.join(map(repr, args))}")
    elif kind is not Any:
        _of(kind, plain, at)


def _require_fields(kind: Any, plain: Any, at: str) -> None:
    hints, known = get_type_hints(kind), fields(kind)
    if getattr(kind, "as_list", False):
        given = _of(list, plain, at)
        places = [f"{at}[{number}]" for number in range(len(known))]
        if len(given) > len(known):
            raise DamagedFileError(f"{at} has {len(given)} items and not {len(known)}")
        found = dict(zip(places, given, strict=False))
    else:
        names = [each.name.removesuffix("_") for each in known]
        places = [f"{at}.{name}" if at else name for name in names]
        given = _of(dict, plain, at or "it")
        found = {place: given[name] for place, name in zip(places, names, strict=True) if name in given}
    for each, place in zip(known, places, strict=True):
        if place in found:
            _require(hints[each.name], found[place], place)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise DamagedFileError(f"{place} is missing")


def _require_items(kinds: tuple[Any, ...], plain: Any, at: str) -> None:
    given = _of(list, plain, at)
    each_kind = kinds[:1] * len(given) if kinds[-1] is ... else kinds
    if len(given) != len(each_kind):
        raise DamagedFileError(f"{at} has {len(given)} items and not {len(each_kind)}")
    for number, (kind, item) in enumerate(zip(each_kind, given, strict=True)):
        _require(kind, item, f"{at}[{number}]")


def _of(kind: type, plain: Any, at: str) -> Any:
    if type(plain) is not kind:
        raise DamagedFileError(f"{at} is {_WORDS[type(plain)]} and not {_WORDS[kind]}")
    if isinstance(plain, str) and any("\ud800" <= sign <= "\udfff" for sign in plain):
        raise DamagedFileError(f"{at} has half of a character")  # that nobody could print
    return plain
