"""Compact JSON of frozen dataclasses: plans and commits, which hold thousands of byte ranges and travel each epoch.

A dataclass is the list of its fields' values, in order, so a field may be added at the end if it has a default: older
text then still reads. Mappings are objects (integer keys as text), tuples are lists, what may be None is null or what
else it may be, `Any` is JSON as it is. How a class is read and written is worked out once from its annotations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Step = Callable[[Any], Any] | None  # None: the value is its own JSON


def to_json(value: Any) -> str:
    """The JSON of a dataclass instance, on one line."""
    kind: Any = type(value)
    write = _writer(kind)
    return json.dumps(value if write is None else write(value), separators=(",", ":"), ensure_ascii=False)


def from_json(kind: type[T], text: str | bytes) -> T:
    """The instance of `kind` that `to_json` gave this text for."""
    key: Any = kind
    read = _reader(key)
    plain = json.loads(text)
    instance: T = plain if read is None else read(plain)
    return instance


@cache
def _writer(kind: Any) -> _Step:
    if is_dataclass(kind):
        names, steps = _fields(kind, _writer)
        get = attrgetter(*names)
        if len(names) == 1:
            return lambda value: [_apply(steps[0], get(value))]
        if not any(steps):
            return get
        return lambda value: [_apply(step, part) for step, part in zip(steps, get(value), strict=True)]
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
        return _if_there(_writer(_other_than_none(args)))
    return None


@cache
def _reader(kind: Any) -> _Step:
    if is_dataclass(kind):
        make: Any = kind
        _, steps = _fields(kind, _reader)
        if not any(steps):
            return lambda value: make(*value)
        # Fewer values than fields: the rest have defaults.
        return lambda value: make(*(_apply(step, part) for step, part in zip(steps, value, strict=False)))
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
        return _if_there(_reader(_other_than_none(args)))
    return None


def _fields(kind: Any, step: Callable[[Any], _Step]) -> tuple[list[str], list[_Step]]:
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    return names, [step(hints[name]) for name in names]


def _apply(step: _Step, value: Any) -> Any:
    return value if step is None else step(value)


def _other_than_none(kinds: tuple[Any, ...]) -> Any:
    (kind,) = (kind for kind in kinds if kind is not NoneType)
    return kind


def _if_there(step: _Step) -> _Step:
    return None if step is None else lambda value: None if value is None else step(value)


def _of_each(step: _Step) -> _Step:
    return None if step is None else lambda values: [step(value) for value in values]
