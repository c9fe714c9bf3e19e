"""Validates arguments of the Python API, so that a wrong argument is reported at once, not by an inner function."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from typing import Any, get_args

from ..errors import HeadwaterError, shortened

_MOST_SHOWN = 60


class ArgumentError(HeadwaterError):
    """An invalid argument."""

    def __init__(self, name: str, given: object, expected: str) -> None:
        kind = type(given).__name__
        super().__init__(f"{name} must be {expected}, not {shortened(repr(given), _MOST_SHOWN)} ({kind})")


def check_name(name: str, given: Any) -> None:
    """Require a string. Raises ArgumentError."""
    if not isinstance(given, str):
        raise ArgumentError(name, given, "a text")


def check_number(name: str, given: Any, least: int | None = None) -> None:
    """Require None or a whole number from `least` on. Raises ArgumentError."""
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, Integral) or (least is not None and int(given) < least):
        raise ArgumentError(name, given, "a whole number" if least is None else f"a whole number from {least}")


def check_names(name: str, given: Any) -> None:
    """Require a sequence of strings. A single string is an error: its letters would be taken. Raises ArgumentError."""
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(item, str) for item in given):
        raise ArgumentError(name, given, "a list of texts")


def check_engine(given: Any) -> None:
    """Require None or the name of an expression engine. Raises ArgumentError."""
    from ..runtime.ir.topology import ExpressionEngine

    engines = get_args(ExpressionEngine)
    if given is not None and given not in engines:
        raise ArgumentError("engine", given, " or ".join(map(repr, engines)))


def check_methods(name: str, given: Any, *methods: str) -> None:
    """Require None or an object with these methods. Raises ArgumentError."""
    if given is not None and not all(callable(getattr(given, method, None)) for method in methods):
        raise ArgumentError(name, given, f"an object with the method {' and '.join(methods)}")
