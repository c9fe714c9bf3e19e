"""Stages that failed, and dead letters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from ...errors import HeadwaterError, MachineError, shortened
from ...plugins.errors import error_text
from ..dataclass_json import to_plain
from ..ir.topology import Topic
from ..log.log import Listed, Log, Writer, epoch_file_name
from ..records.arrays import too_large
from ..records.dead_letters import DeadLetter, letters_table
from ..task_id import TaskKey
from ..tasks.errors import RecordsMissingError, TaskCorruptedError, TaskMigratedError
from ..tasks.measured import Volume
from ..tasks.plan import EpochPlan, SkippedRecord, TaskPlan
from .execution.aggregates.sums import SumOverflowError
from .execution.node import EachFailedError, RowFailedError, RowsFailedError
from .execution.order.origins import records_again
from .execution.order.partition_group import TakenRecords
from .numbering import TouchedRecordError
from .operators.operator import Node
from .pipe import TextError

# The facts about an error that ended a stage, in a form that crosses processes.

Given = TypeVar("Given")

_MOST_TOLD = 1000
"""The most rows that fail of which an error tells, each with its cause: the next trial tells of more."""


class StepError(HeadwaterError):
    """A step could not process the records of a task. `step`: the operator's name, `at`: its place in the YAML.

    `numbers`: of the records, where the step can tell, in the order of taking; in a trial as `EpochPlan.numbered` says.
    `causes`: of each of them, or none where `cause` is that of all. `by_itself`: whether each of them fails whichever
    others there are.
    """

    def __init__(
        self,
        step: str,
        at: str,
        task: str,
        cause: Exception,
        numbers: Sequence[int] = (),
        causes: Sequence[Exception] = (),
        by_itself: bool = False,
    ) -> None:
        super().__init__(f"{at or step}: {cause}")
        self.step = step
        self.at = at
        self.task = task
        self.cause = cause
        self.numbers = tuple(numbers)
        self.causes = tuple(causes)
        self.by_itself = by_itself


@contextmanager
def named_step(node: Node, task: str) -> Iterator[None]:
    """What an operator raises for rows of a task is raised as a StepError. Errors of a store, of the log or of the
    machine keep their own type.
    """
    step, at = type(node).__name__, str(node.at)
    try:
        yield
    except RowsFailedError as error:
        raise StepError(step, at, task, error, sorted({*error.orders.tolist()})) from error
    except RowFailedError as error:
        raise StepError(step, str(error.at or at), task, error.cause, [error.order]) from error
    except EachFailedError as error:
        told = dict(reversed(error.rows[:_MOST_TOLD]))  # of several rows of a record the first
        numbers, causes = [*told][::-1], [*told.values()][::-1]
        raise StepError(step, at, task, causes[0], numbers, causes, error.by_itself) from error
    except SumOverflowError as error:
        raise StepError(step, at, task, error) from error
    except (HeadwaterError, OSError, MemoryError):
        raise
    except Exception as error:
        raise StepError(step, at, task, error) from error


def pieces_of(node: Node, task: str, pieces: Iterator[Given]) -> Iterator[Given]:
    """The same rows, which an operator makes some at a time. An error on the way is one of its step."""
    with named_step(node, task):
        yield from pieces


@dataclass(frozen=True)
class Facts:
    """What is known about an error that ended an epoch's job.

    `kind`: `step`: a step failed on its input, and `at` (file:line in the YAML) is the step. `corrupted`: a store must
    be restored, found in a trial. `missing`: the file `path` of records is not there, found in a trial. `outside`: no
    record can be the cause, but a file, the log or the machine. `crashed`: the worker was ended by the system. `ended`:
    what executes the job is gone. `unknown`: anything else. `cause`, `hint`: for people. `numbers`: in a trial, the
    records that the step cannot process, as it numbers them (`EpochPlan.numbered`); none if it does not tell.
    `causes`: of each of these, or none where `cause` is that of all. `stateless`: whether the step has looked at each
    record alone. `too_large`: whether rows together were more bytes than can be held, so that fewer records may do;
    `records`: how many the task has taken, 0 if that is not known.
    """

    kind: Literal["step", "corrupted", "missing", "outside", "crashed", "ended", "unknown"]
    cause: str
    at: str = ""
    hint: str = ""
    path: str = ""
    numbers: tuple[int, ...] = ()
    causes: tuple[str, ...] = ()
    stateless: bool = False
    too_large: bool = False
    records: int = 0


class TooLargeError(Exception):
    """The rows of a task are more bytes than can be held: `records`, how many it has taken; `cause`, the error."""

    def __init__(self, records: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.records = records
        self.cause = cause


class StageFailedError(Exception):
    """The error that a stage raises. Its text is the facts as JSON, because Spark brings only the text to the driver.

    Its cause is chained, unless its text is none that can be written.
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
        raise StageFailedError(facts_of(error)) from (error if _can_be_written(error) else None)


def _can_be_written(error: BaseException) -> bool:
    """Whether a traceback with the error can be written in UTF-8. If not, Spark's workers end without a word."""
    found: BaseException | None = error
    try:
        while found is not None:
            error_text(found).encode()
            found = found.__cause__ or found.__context__
    except UnicodeEncodeError:
        return False
    return True


def facts_of(error: Exception) -> Facts:
    """The facts about an error."""
    match error:
        case TooLargeError():
            return replace(facts_of(error.cause), too_large=True, records=error.records)
        case StepError():
            causes = tuple(map(_told, error.causes))
            return Facts(
                "step",
                _told(error.cause),
                error.at,
                numbers=error.numbers,
                causes=causes,
                stateless=error.by_itself,
                too_large=too_large(error.cause),
            )
        case TextError() | TouchedRecordError():  # of a step in Spark SQL, which is found later
            return Facts("unknown", shortened(error.message), hint=error.hint or "")
        case RecordsMissingError():
            return Facts("missing", error.reason, hint=error.way_out or "", path=error.path)
        case TaskCorruptedError():
            return Facts("corrupted", error.reason, hint=error.way_out or "")
        case TaskMigratedError():  # a store that is ahead: no other driver has a part in this one's generation
            return Facts("corrupted", error.message)
        case OSError() | MemoryError():
            return facts_of(MachineError.from_error(error))
        case HeadwaterError():
            return Facts("outside", shortened(error.message), hint=error.hint or "")
    return Facts("unknown", shortened(error_text(error)), too_large=too_large(error))


def is_too_large(error: Exception) -> bool:
    """Whether an error of a step or of Arrow says that rows together are more bytes than can be held."""
    return too_large(error.cause if isinstance(error, StepError) else error)


def _told(error: Exception) -> str:
    return shortened(str(error) if isinstance(error, HeadwaterError | ValueError) else error_text(error))


# What an epoch does with the records that it leaves out: it counts them, and writes the dead letters of some.
#
# The commit of the epoch lists the letters. They are written where the records are known: by the first stage, of those
# that the plan leaves out, and by the driver, of those that a step could not process in the job itself.


def counted(left_out: Iterable[SkippedRecord]) -> dict[str, int]:
    """How many records count as dropped, by step and reason."""
    return dict(
        Counter(f"{each.step or each.topic}:{'dead_letter' if each.dead_letter else 'skipped'}" for each in left_out)
    )


def letters_of(
    task: TaskPlan, taken: TakenRecords, left_out: Mapping[int, SkippedRecord], sources: Iterable[Topic], log: Log
) -> list[DeadLetter]:
    """The dead letters of the records that a task leaves out, by their numbers in the order of taking."""
    numbers = [number for number, each in left_out.items() if each.dead_letter]
    again = records_again(task, taken, {topic.name: topic for topic in sources}, numbers, log) if numbers else []
    return [
        DeadLetter(
            each.topic,
            each.record,
            left_out[each.number].step,
            left_out[each.number].error,
            taken.order_at(each.number),
        )
        for each in again
    ]


def write_letters(
    plan: EpochPlan,
    task: TaskKey,
    letters: Sequence[DeadLetter],
    topics: Mapping[str, Topic | None],
    writer: Writer | Log,
    unique: str = "",
) -> Iterator[Listed]:
    """Write dead letters, topic by topic. `topics`: where those of a source go. `unique`: added to the files' names."""
    name = epoch_file_name(plan.incarnation, plan.generation, plan.epoch, task, plan.attempt) + unique
    for source, topic in topics.items():
        mine = [each for each in letters if each.topic == source]
        if mine and topic is not None:
            yield from writer.write(
                plan.application, topic.name, name, letters_table(topic, mine), task.partition, task.partition
            )


def volume_of(letters: Iterable[Listed]) -> Volume:
    """How much was written."""
    listed = list(letters)
    return Volume(written_records=sum(each.rows for each in listed), written_bytes=sum(each.size for each in listed))
