"""Compact JSON of frozen dataclasses, for commits and descriptions in the log, and plans and requests to workers.

The encoding follows the annotations of a class:

    dataclass                      object with its fields
    dataclass with `as_list`       list of the values of its fields, such as byte ranges, of which there are thousands
    named tuple                    list of the values of its fields
    tuple                          list
    Mapping                        object; integer keys become strings
    union of classes               object; the names of its fields identify the class
    None                           null; an empty object is read as None too, because older logs contain that
    Any                            JSON as it is

A trailing `_` of a field's name (`from_`, because `from` is a keyword) is omitted in the JSON. Fields in the `seldom`
of a class are omitted while they have their default. A reader ignores unknown fields, and uses defaults for missing
ones. So a new field needs a default, and in a list it must be the last one.

The reader and the writer of a class are built once, as nested functions, and cached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from inspect import Parameter, signature
from math import isfinite
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
S = TypeVar("S")
_INTEGER_BITS = 64
_Step = Callable[[Any], Any] | None  # converts a value; None: the value stays as it is


def to_json(value: Any) -> str:
    """The JSON of a dataclass instance, on one line."""
    return compact(to_plain(value))


def from_json(kind: type[T], text: str | bytes) -> T:
    """The instance of `kind` from the output of `to_json`. Raises KeyError, TypeError or ValueError."""
    return from_plain(kind, parsed(text))


def parsed(text: str | bytes) -> Any:
    """The plain JSON values of text from a file or an object, which may be damaged.

    Raises ValueError for malformed JSON. For deep nesting, `json.loads` raises RecursionError, which callers do not
    expect of a damaged file. It becomes a ValueError too.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error


def compact(plain: Any) -> str:
    """The JSON text of plain values, without spaces. Lone surrogates, as in names of files, are escaped."""
    text = json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def to_plain(value: Any) -> Any:
    """A dataclass instance as plain JSON values: dicts, lists, strings, numbers."""
    kind: Any = type(value)
    return _apply(_writer(kind), value)


def from_plain(kind: type[T], plain: Any) -> T:
    """The inverse of `to_plain`. It trusts the types of scalar values; `fitting` checks them.

    Raises KeyError, TypeError or ValueError if the structure of `plain` does not fit `kind`.
    """
    key: Any = kind
    instance: T = _apply(_reader(key), plain)
    return instance


@cache
def _writer(kind: Any) -> _Step:
    if is_dataclass(kind) or _is_named_tuple(kind):
        return _writer_of_fields(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple and args[-1] is ...:
        return _of_each(_writer(args[0]))
    if origin is tuple:
        steps = [_writer(part) for part in args]
        return lambda value: [_apply(step, part) for step, part in zip(steps, value, strict=True)]
    if origin is Mapping:
        write = _writer(args[1])
        return dict if write is None else lambda value: {key: write(part) for key, part in value.items()}
    if origin is UnionType:
        return _if_there(_one_of(_other_than_none(args), _writer, type))
    return None


@cache
def _reader(kind: Any) -> _Step:
    if is_dataclass(kind) or _is_named_tuple(kind):
        return _reader_of_fields(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is tuple and args[-1] is ...:
        read_each = _of_each(_reader(args[0]))
        return tuple if read_each is None else lambda value: tuple(read_each(value))
    if origin is tuple:
        steps = [_reader(part) for part in args]
        return lambda value: tuple(_apply(step, part) for step, part in zip(steps, value, strict=True))
    if origin is Mapping:
        key_type, read = args[0], _reader(args[1])
        if key_type is str and read is None:
            return None
        return lambda value: {key_type(key): _apply(read, part) for key, part in value.items()}
    if origin is UnionType:
        kinds = _other_than_none(args)
        named = {frozenset(key for _, key, _ in _fields(each, _reader)): each for each in kinds if len(kinds) > 1}
        return _if_there(_one_of(kinds, _reader, lambda plain: named[frozenset(plain)]))
    return None


def _writer_of_fields(kind: Any) -> _Step:
    members = _fields(kind, _writer)
    get = attrgetter(*(name for name, _, _ in members))
    values = get if len(members) > 1 else lambda value: (get(value),)
    if _as_list(kind):
        if not any(step for _, _, step in members):
            return values
        return lambda value: [_apply(step, part) for (_, _, step), part in zip(members, values(value), strict=True)]
    keys = [key for _, key, _ in members]
    seldom = [
        (field.name, field.default if field.default_factory is MISSING else field.default_factory())
        for field in fields(kind)
        if field.name in getattr(kind, "seldom", ())
    ]
    steps = [(key, step) for _, key, step in members if step is not None]

    def write_object(value: Any) -> dict[str, Any]:
        plain = dict(zip(keys, values(value), strict=True))
        for key, default in seldom:
            if plain[key] == default:
                del plain[key]
        for key, step in steps:
            if key in plain:
                plain[key] = step(plain[key])
        return plain

    return write_object


def _reader_of_fields(kind: Any) -> _Step:
    members = _fields(kind, _reader)
    if not _as_list(kind):
        return lambda value: kind(**{name: _apply(step, value[key]) for name, key, step in members if key in value})
    if not any(step for _, _, step in members):
        return lambda value: kind(*value)
    return lambda value: kind(*(_apply(step, part) for (_, _, step), part in zip(members, value, strict=False)))


def _fields(kind: Any, step: Callable[[Any], S]) -> list[tuple[str, str, S]]:
    """The name, the JSON key and the conversion of each field."""
    hints = get_type_hints(kind)
    names = kind._fields if _is_named_tuple(kind) else [field.name for field in fields(kind)]
    return [(name, name.removesuffix("_"), step(hints[name])) for name in names]


def _as_list(kind: Any) -> bool:
    return _is_named_tuple(kind) or bool(getattr(kind, "as_list", False))


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _apply(step: _Step, value: Any) -> Any:
    return value if step is None else step(value)


def _other_than_none(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(kind for kind in kinds if kind is not NoneType)


def _one_of(kinds: tuple[Any, ...], step: Callable[[Any], _Step], kind_of: Callable[[Any], Any]) -> _Step:
    """The conversion of the only class, or of the class of a value. `kind_of`: value -> class."""
    if len(kinds) == 1:
        return step(kinds[0])
    steps = {each: step(each) for each in kinds}
    return lambda value: _apply(steps[kind_of(value)], value)


def _if_there(step: _Step) -> _Step:
    return None if step is None else lambda value: None if value is None or value == {} else step(value)


def _of_each(step: _Step) -> _Step:
    return None if step is None else lambda values: [step(value) for value in values]


# Values of files without a checksum, which may be damaged, edited, or of another program.

JSON_TYPES: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}
"""The types of JSON values in words."""


class DamagedFileError(ValueError):
    """A file with wrong contents; the text has the position and the cause."""


def fitting(kind: type[T], plain: Any) -> T:
    """An instance of a dataclass from plain JSON values, all of which must have the types of their fields.

    Raises DamagedFileError, which names the first one that has not. Numbers must be finite, and integers must fit into
    64 bits.
    """
    key: Any = kind
    _check(key)(plain, ())
    return from_plain(kind, plain)


_At = tuple[str | int, ...]  # the position of a value: names of fields, and numbers of items
_Check = Callable[[Any, _At], None]


@cache
def _check(kind: Any) -> _Check:
    if is_dataclass(kind) or _is_named_tuple(kind):
        return _check_of_fields(kind)
    origin, args = get_origin(kind), get_args(kind)
    if origin is UnionType:
        (check,) = map(_check, _other_than_none(args))
        return lambda plain, at: None if plain is None or plain == {} else check(plain, at)
    if origin is Mapping:
        return _check_of_mapping(*map(_check, args))
    if origin is tuple:
        return _check_of_items([_check(part) for part in args if part is not ...], any_number=args[-1] is ...)
    if origin is Literal:
        return _check_of_choice(args)
    return (lambda _, __: None) if kind is Any else lambda plain, at: _check_type(kind, plain, at)


def _check_of_fields(kind: Any) -> _Check:
    as_list = _as_list(kind)
    defaults = [parameter.default for parameter in signature(kind).parameters.values()]
    members = [
        (number if as_list else key, check, defaults[number] is Parameter.empty)
        for number, (_, key, check) in enumerate(_fields(kind, _check))
    ]

    def check_fields(plain: Any, at: _At) -> None:
        _check_type(list if as_list else dict, plain, at)
        given = dict(enumerate(plain)) if as_list else plain
        if as_list and len(given) > len(members):
            raise DamagedFileError(f"{_text(at)} has {len(given)} items and not {len(members)}")
        for key, check, required in members:
            if key in given:
                check(given[key], (*at, key))
            elif required:
                raise DamagedFileError(f"{_text((*at, key))} is missing")

    return check_fields


def _check_of_mapping(check_key: _Check, check: _Check) -> _Check:
    def check_mapping(plain: Any, at: _At) -> None:
        _check_type(dict, plain, at)
        for key, value in plain.items():
            check_key(key, (f"a key of {_text(at)}",))
            check(value, (*at, key))

    return check_mapping


def _check_of_items(checks: list[_Check], any_number: bool) -> _Check:
    def check_items(plain: Any, at: _At) -> None:
        _check_type(list, plain, at)
        each = checks * len(plain) if any_number else checks
        if len(plain) != len(each):
            raise DamagedFileError(f"{_text(at)} has {len(plain)} items and not {len(each)}")
        for number, (check, item) in enumerate(zip(each, plain, strict=True)):
            check(item, (*at, number))

    return check_items


def _check_of_choice(choices: tuple[Any, ...]) -> _Check:
    def check_choice(plain: Any, at: _At) -> None:
        if plain not in choices:
            raise DamagedFileError(f"{_text(at)} is {plain!r} and not one of {', '.join(map(repr, choices))}")

    return check_choice


def _check_type(kind: type, plain: Any, at: _At) -> None:
    if type(plain) is not kind and not (kind is float and type(plain) is int):
        raise DamagedFileError(f"{_text(at)} is {JSON_TYPES[type(plain)]} and not {JSON_TYPES[kind]}")
    if isinstance(plain, str) and not plain.isascii() and any("\ud800" <= sign <= "\udfff" for sign in plain):
        raise DamagedFileError(f"{_text(at)} has half of a character")  # a lone surrogate, which cannot be printed
    if isinstance(plain, int) and plain.bit_length() >= _INTEGER_BITS:
        raise DamagedFileError(f"{_text(at)} does not fit into {_INTEGER_BITS} bits")
    if isinstance(plain, float) and not isfinite(plain):
        raise DamagedFileError(f"{_text(at)} is {plain} and not a finite number")


def _text(at: _At) -> str:
    """A position for messages: `topologies[0].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at).removeprefix(".") or "it"
