"""How an error of a Python stage gets to the driver with its facts.

Spark brings the driver nothing of an exception in a worker but the text of its traceback. So the last exception that a
worker raises has the facts as one line of JSON in its text, and the driver takes them from there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, TypeVar

from ...errors import HeadwaterError, MachineError, shortened
from ...plugins.errors import named
from ..stages.pipe import TextError
from ..stages.stage import StepError
from ..tasks.errors import TaskCorruptedError

Given = TypeVar("Given")


@dataclass(frozen=True)
class Facts:
    """What a worker says of an error.

    `kind`: `step` where a step failed on what it was given, `at` (file:line in the YAML) being the step; `corrupted`
    where a store has to be restored; `outside` where else no record can be to blame: a file, the log; `unknown` else.
    `cause`, `hint`: for people.
    """

    kind: Literal["step", "corrupted", "outside", "unknown"]
    cause: str
    at: str = ""
    hint: str = ""


class StageFailedError(Exception):
    """What a stage raises in Spark's worker. Its cause is chained."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(json.dumps(asdict(facts)))


_RAISED = re.compile(rf"\b{StageFailedError.__name__}: (?P<facts>\{{[^\n]*\}})")


def with_facts(rows: Iterator[Given]) -> Iterator[Given]:
    """The same; an error on the way is raised as a StageFailedError."""
    try:
        yield from rows
    except Exception as error:
        raise StageFailedError(_facts(error)) from error


def facts_of(error: BaseException) -> Facts | None:
    """What the worker said, from an error that Spark raised in the driver; None where it was no worker's error."""
    found = list(_RAISED.finditer(str(error)))
    if not found:
        return None
    try:
        return Facts(**json.loads(found[-1]["facts"]))  # what is chained before it may hold a record's own text
    except (ValueError, TypeError):  # cut off by Spark
        return None


def _facts(error: Exception) -> Facts:
    match error:
        case StepError():
            own = error.cause
            cause = str(own) if isinstance(own, HeadwaterError | ValueError) else named(own)
            return Facts("step", shortened(cause), error.at)
        case TextError():  # of what Spark SQL made of a record: which step did is looked for
            return Facts("unknown", shortened(error.message), hint=error.hint or "")
        case TaskCorruptedError():
            return Facts("corrupted", error.reason)
        case OSError() | MemoryError():
            return _facts(MachineError.of(error))
        case HeadwaterError():
            return Facts("outside", shortened(error.message), hint=error.hint or "")
    return Facts("unknown", shortened(named(error)))
