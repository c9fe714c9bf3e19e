"""What an analyzer of expressions is asked and answers: Spark's, or a stand-in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Request = tuple[str, str]
"""An expression in Spark SQL, and the columns it reads as Spark SQL DDL."""


@dataclass(frozen=True)
class Rejection:
    """A mistake in an expression. `offset`, `end`: the characters concerned; None if unknown.

    `code`: of the diagnostic, by default that of types that do not fit. `hint`: the way out, if known. `further`: the
    other mistakes.
    """

    message: str
    offset: int | None = None
    code: str = "HW411"
    hint: str | None = None
    end: int | None = None
    further: tuple[Rejection, ...] = ()


Verdict = str | Rejection
"""The type of an expression as Spark SQL DDL, or why it has none."""


class Analyzer(Protocol):
    """Types expressions: Spark's analyzer, or a stand-in."""

    def analyze(self, requests: Sequence[Request]) -> Sequence[Verdict]:
        """One verdict per request, in order. Expressions may contain aggregates."""


@runtime_checkable
class StartingAnalyzer(Analyzer, Protocol):
    """An analyzer that takes long to start, and shows the user why it starts."""

    def because(self, reason: str) -> None:
        """Set the reason for the next request."""
