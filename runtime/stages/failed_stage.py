"""What a stage says of the error that ended it: facts, in whichever process it ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal, TypeVar

from ...errors import HeadwaterError, MachineError, shortened
from ...plugins.errors import named
from ..tasks.errors import TaskCorruptedError
from .pipe import TextError
from .stage import StepError

Given = TypeVar("Given")


@dataclass(frozen=True)
class Facts:
    """What is known of an error that ended an epoch's job.

    `kind`: `step` where a step failed on what it was given, `at` (file:line in the YAML) being the step; `corrupted`
    where a store has to be restored; `outside` where else no record can be to blame: a file, the log, the machine;
    `ended` where what executes the job is gone; `unknown` else. `cause`, `hint`: for people.
    """

    kind: Literal["step", "corrupted", "outside", "ended", "unknown"]
    cause: str
    at: str = ""
    hint: str = ""


class StageFailedError(Exception):
    """What a stage raises where it runs: its text is the facts as JSON, all that Spark brings to the driver. Its cause
    is chained.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(json.dumps(asdict(facts)))
        self.facts = facts


def with_facts(rows: Iterator[Given]) -> Iterator[Given]:
    """The same rows; an error on the way is raised as a StageFailedError."""
    try:
        yield from rows
    except StageFailedError:  # of the stage before, in the same process
        raise
    except Exception as error:
        raise StageFailedError(facts_of(error)) from error


def facts_of(error: Exception) -> Facts:
    """What an error says of itself."""
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
            return facts_of(MachineError.of(error))
        case HeadwaterError():
            return Facts("outside", shortened(error.message), hint=error.hint or "")
    return Facts("unknown", shortened(named(error)))
