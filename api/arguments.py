"""Arguments of the Python API: one of another kind is told at once, and not by whatever it meets inside."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from typing import Any

from ..errors import HeadwaterError, shortened

_MOST_SHOWN = 60


class ArgumentError(HeadwaterError):
    """An argument that is not what a method takes: its `name`, the `given` value, what was `expected`."""

    def __init__(self, name: str, given: object, expected: str) -> None:
        kind = type(given).__name__
        super().__init__(f"{name} must be {expected}, not {shortened(repr(given), _MOST_SHOWN)} ({kind})")
        self.name = name
        self.given = given
        self.expected = expected


def check_name(name: str, given: Any) -> None:
    """Raises ArgumentError for what is no text."""
    if not isinstance(given, str):
        raise ArgumentError(name, given, "a text")


def check_number(name: str, given: Any, least: int | None = None) -> None:
    """Raises ArgumentError for what is neither None nor a whole number, from `least` on."""
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, Integral) or (least is not None and int(given) < least):
        raise ArgumentError(name, given, "a whole number" if least is None else f"a whole number from {least}")


def check_names(name: str, given: Any) -> None:
    """Raises ArgumentError for what is no sequence of texts; a text alone would be taken for its letters."""
    if isinstance(given, str) or not isinstance(given, Collection) or not all(isinstance(each, str) for each in given):
        raise ArgumentError(name, given, "a list of texts")


def check_methods(name: str, given: Any, *methods: str) -> None:
    """Raises ArgumentError for what is neither None nor has these methods."""
    if given is not None and not all(callable(getattr(given, method, None)) for method in methods):
        raise ArgumentError(name, given, f"an object with the method {' and '.join(methods)}")
