"""What the analyzer answers, and how a place in an expression is found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..advice import without_advice


@dataclass(frozen=True)
class Refused:
    """Why an expression is refused. `offset`, `end`: the characters concerned, None if unknown.

    `code`: the compiler's diagnostic. The default is that of types that do not fit. `further`: its other mistakes.
    """

    message: str
    offset: int | None = None
    code: str = "HW411"
    hint: str | None = None
    end: int | None = None
    further: tuple[Refused, ...] = ()


def together(refusals: Sequence[Refused]) -> Refused | None:
    """Several mistakes of one expression as one refusal, each once, in the order of the text."""
    if not refusals:
        return None
    first, *others = sorted(dict.fromkeys(refusals), key=lambda refused: (refused.offset or 0, refused.message))
    return replace(first, further=tuple(others))


def of_error(error: Any) -> Refused:
    """A refusal of types from Spark's own exception."""
    for context in error.getQueryContext():
        try:
            start, end = int(context.startIndex()), int(context.stopIndex()) + 1
        except Exception:  # a context of the DataFrame API has no place in the text
            continue
        if start >= 0:
            return Refused(first_sentence(error), start, end=end)
    return Refused(first_sentence(error))


def first_sentence(error: Any) -> str:
    """What Spark's exception says first."""
    return sentence(error.getMessage() or str(error))


def sentence(message: str) -> str:
    """The first sentence of Spark's message, without error class and SQL state."""
    first = re.split(r"\s*(?:SQLSTATE:|;\n|\n)", message.strip(), maxsplit=1)[0]
    return without_advice(re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", first))
