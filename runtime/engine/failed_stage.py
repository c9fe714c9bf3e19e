"""Errors of stages, skipped records, and dead letters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from ...errors import HeadwaterError, MachineError, UnavailableError, shortened
from ...plugins.errors import error_text
from ..dataclass_json import to_plain
from ..ir.topology import Topic
from ..log.log import Listed, RecordWriter, epoch_file_name
from ..log.ranges import RangeReader
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

# The description of an error that ended a stage, in a form that can be sent between processes.

Given = TypeVar("Given")

_MOST_LISTED = 1000
"""The most failed rows that an error lists with their causes. The next trial lists more."""


class StepError(HeadwaterError):
    """A step could not process records of a task. `step`: the operator's name. `at`: its location in the YAML.

    `numbers`: the failed records, if the step knows them, by the order in which the task takes records; in a trial by
    `EpochPlan.locate`. `causes`: the error of each; empty if `cause` applies to all. `by_itself`: whether each record
    fails independently of the others.
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
    """A context in which errors of an operator are raised as StepError.

    Errors of a store, of the log or of the machine keep their own type.
    """
    step, at = type(node).__name__, str(node.at)
    try:
        yield
    except RowsFailedError as error:
        raise StepError(step, at, task, error, sorted({*error.orders.tolist()})) from error
    except RowFailedError as error:
        raise StepError(step, str(error.at or at), task, error.cause, [error.order]) from error
    except EachFailedError as error:
        by_record = dict(reversed(error.rows[:_MOST_LISTED]))  # the first failed row of each record
        numbers, causes = [*by_record][::-1], [*by_record.values()][::-1]
        raise StepError(step, at, task, causes[0], numbers, causes, error.by_itself) from error
    except SumOverflowError as error:
        raise StepError(step, at, task, error) from error
    except (HeadwaterError, OSError, MemoryError):
        raise
    except Exception as error:
        raise StepError(step, at, task, error) from error


def pieces_of(node: Node, task: str, pieces: Iterator[Given]) -> Iterator[Given]:
    """The same pieces of rows, which an operator produces lazily. Their errors are those of its step."""
    with named_step(node, task):
        yield from pieces


@dataclass(frozen=True)
class Facts:
    """The description of an error that ended an epoch's job.

    `kind`:

    - `step`: a step failed on its input. `at` (file:line in the YAML) is the step.
    - `corrupted`: a store must be restored. Found in a trial.
    - `missing`: the file `path` with records does not exist. Found in a trial.
    - `unavailable`: a service outside does not answer. Found in a trial.
    - `outside`: the cause is a file, the log or the machine, not a record.
    - `crashed`: the system ended the worker.
    - `ended`: the process that executes the job has ended.
    - `unknown`: anything else.

    `cause`, `hint`: messages for users. `numbers`: in a trial, the records that the step cannot process, numbered by
    `EpochPlan.locate`; empty if unknown. `causes`: the error of each; empty if `cause` applies to all. `stateless`:
    whether the step processed each record independently. `too_large`: whether the rows had more bytes than an array can
    hold, so that fewer records may succeed. `records`: how many records the task took, 0 if unknown.
    """

    kind: Literal["step", "corrupted", "missing", "unavailable", "outside", "crashed", "ended", "unknown"]
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
    """The rows of a task have more bytes than an array can hold. `records`: how many it took. `cause`: the error."""

    def __init__(self, records: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.records = records
        self.cause = cause


class StageFailedError(Exception):
    """The error that a stage raises. Its text is `facts` as JSON, because Spark sends only the text to the driver.

    The cause is chained, unless its text cannot be encoded.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(json.dumps(to_plain(facts)))
        self.facts = facts


def with_facts(rows: Iterator[Given]) -> Iterator[Given]:
    """The same rows. An error during the iteration is raised as StageFailedError."""
    try:
        yield from rows
    except StageFailedError:  # from the previous stage, in the same process
        raise
    except Exception as error:
        raise StageFailedError(facts_of(error)) from (error if _can_be_written(error) else None)


def _can_be_written(error: BaseException) -> bool:
    """Whether a traceback with the error can be encoded in UTF-8. If not, Spark's workers end without a message."""
    found: BaseException | None = error
    try:
        while found is not None:
            error_text(found).encode()
            found = found.__cause__ or found.__context__
    except UnicodeEncodeError:
        return False
    return True


def facts_of(error: Exception) -> Facts:
    """The description of an error."""
    match error:
        case TooLargeError():
            return replace(facts_of(error.cause), too_large=True, records=error.records)
        case StepError():
            causes = tuple(map(_text, error.causes))
            return Facts(
                "step",
                _text(error.cause),
                error.at,
                numbers=error.numbers,
                causes=causes,
                stateless=error.by_itself,
                too_large=too_large(error.cause),
            )
        case TextError() | TouchedRecordError():  # the cause is an earlier step in Spark SQL, which a trial finds
            return Facts("unknown", shortened(error.message), hint=error.hint or "")
        case RecordsMissingError():
            return Facts("missing", error.reason, hint=error.way_out or "", path=error.path)
        case TaskCorruptedError():
            return Facts("corrupted", error.reason, hint=error.way_out or "")
        case TaskMigratedError():  # a store is ahead, but no other driver works on this generation
            return Facts("corrupted", error.message)
        case OSError() | MemoryError():
            return facts_of(MachineError.from_error(error))
        case UnavailableError():
            return Facts("unavailable", shortened(error.message), hint=error.hint or "")
        case HeadwaterError():
            return Facts("outside", shortened(error.message), hint=error.hint or "")
    return Facts("unknown", shortened(error_text(error)), too_large=too_large(error))


def is_too_large(error: Exception) -> bool:
    """Whether an error of a step or of Arrow says that the rows have more bytes than an array can hold."""
    return too_large(error.cause if isinstance(error, StepError) else error)


def _text(error: Exception) -> str:
    return shortened(str(error) if isinstance(error, HeadwaterError | ValueError) else error_text(error))


# Skipped records of an epoch: they are counted, and some are written as dead letters.
#
# The commit of the epoch lists the letters. The first stage writes letters for the records that the plan skips. The
# driver writes letters for the records that a step could not process in the job itself.


def counted(skipped: Iterable[SkippedRecord]) -> dict[str, int]:
    """The number of dropped records by step and reason, as `step:reason`."""
    return dict(
        Counter(f"{each.step or each.topic}:{'dead_letter' if each.dead_letter else 'skipped'}" for each in skipped)
    )


def letters_of(
    task: TaskPlan,
    taken: TakenRecords,
    skipped: Mapping[int, SkippedRecord],
    sources: Iterable[Topic],
    log: RangeReader,
) -> list[DeadLetter]:
    """The dead letters of the records that a task skips. `skipped`: number in the task's order -> skipped record."""
    numbers = [number for number, each in skipped.items() if each.dead_letter]
    again = records_again(task, taken, {topic.name: topic for topic in sources}, numbers, log) if numbers else []
    return [
        DeadLetter(
            each.topic,
            each.record,
            skipped[each.number].step,
            skipped[each.number].error,
            taken.order_at(each.number),
        )
        for each in again
    ]


def write_letters(
    plan: EpochPlan,
    task: TaskKey,
    letters: Sequence[DeadLetter],
    topics: Mapping[str, Topic | None],
    writer: RecordWriter,
    unique: str = "",
) -> Iterator[Listed]:
    """Write dead letters, topic by topic. `topics`: source -> its dead-letter topic. `unique`: suffix of file names.

    A raw topic of Kafka may have more partitions than its dead-letter topic: then letters of several are in one, each
    in its own lane.
    """
    name = epoch_file_name(plan.incarnation, plan.generation, plan.epoch, task, plan.attempt) + unique
    for source, topic in topics.items():
        mine = [each for each in letters if each.topic == source]
        if mine and topic is not None:
            partition = task.partition % topic.partitions
            table = letters_table(topic, mine)
            yield from writer.write(plan.application, topic.name, name, table, partition, task.partition)


def volume_of(letters: Iterable[Listed]) -> Volume:
    """The volume of these files: records and bytes."""
    listed = list(letters)
    return Volume(written_records=sum(each.rows for each in listed), written_bytes=sum(each.size for each in listed))
