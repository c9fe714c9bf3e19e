"""The facts about an error that ended a stage, in a form that crosses processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from ...errors import HeadwaterError, MachineError, shortened
from ...plugins.errors import named
from ..dataclass_json import to_plain
from ..tasks.errors import RecordsMissingError, TaskCorruptedError, TaskMigratedError
from .numbering import TouchedRecordError
from .pipe import TextError
from .stage import StepError

Given = TypeVar("Given")


@dataclass(frozen=True)
class Facts:
    """What is known about an error that ended an epoch's job.

    `kind`: `step`: a step failed on its input, and `at` (file:line in the YAML) is the step. `corrupted`: a store must
    be restored, found in a trial. `missing`: the file `path` of records is not there, found in a trial. `outside`: no
    record can be the cause, but a file, the log or the machine. `crashed`: the worker was ended by the system. `ended`:
    what executes the job is gone. `unknown`: anything else. `cause`, `hint`: for people. `numbers`: in a trial, the
    records that the step cannot process, as it numbers them (`EpochPlan.numbered`); none if it does not tell.
    `stateless`: whether the step has looked at each record alone.
    """

    kind: Literal["step", "corrupted", "missing", "outside", "crashed", "ended", "unknown"]
    cause: str
    at: str = ""
    hint: str = ""
    path: str = ""
    numbers: tuple[int, ...] = ()
    stateless: bool = False


class StageFailedError(Exception):
    """The error that a stage raises. Its text is the facts as JSON, because Spark brings only the text to the driver.

    Its cause is chained.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(json.dumps(to_plain(facts)))
        self.facts = facts


def with_facts(rows: Iterator[Given]) -> Iterator[Given]:
    """The same rows. An error on the way is raised as a StageFailedError."""
    try:
        yield from rows
    except StageFailedError:  # from the previous stage, in the same process
        raise
    except Exception as error:
        raise StageFailedError(facts_of(error)) from error


def facts_of(error: Exception) -> Facts:
    """The facts about an error."""
    match error:
        case StepError():
            own = error.cause
            cause = str(own) if isinstance(own, HeadwaterError | ValueError) else named(own)
            return Facts("step", shortened(cause), error.at, numbers=error.numbers, stateless=error.step == "Source")
        case TextError() | TouchedRecordError():  # of a step in Spark SQL, which is found later
            return Facts("unknown", shortened(error.message), hint=error.hint or "")
        case RecordsMissingError():
            return Facts("missing", error.reason, hint=error.way_out or "", path=error.path)
        case TaskCorruptedError():
            return Facts("corrupted", error.reason, hint=error.way_out or "")
        case TaskMigratedError():  # a store that is ahead: no other driver has a part in this one's generation
            return Facts("corrupted", error.message)
        case OSError() | MemoryError():
            return facts_of(MachineError.of(error))
        case HeadwaterError():
            return Facts("outside", shortened(error.message), hint=error.hint or "")
    return Facts("unknown", shortened(named(error)))
