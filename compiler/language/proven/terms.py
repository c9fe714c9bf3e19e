"""What is known of a part of an expression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from ....errors import HeadwaterError


class UnprovenTypeError(HeadwaterError):
    """Only Spark knows the type of an expression. `reason`: what of it, as a sentence without its full stop."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Term:
    """A part of an expression: its canonical type, `void` for null. `constant`: it reads no column. `text`: of a
    literal.
    """

    type: str
    constant: bool = False
    text: str | None = None


def unproven(reason: str) -> NoReturn:
    """Raise UnprovenTypeError."""
    raise UnprovenTypeError(reason)
