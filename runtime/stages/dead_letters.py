"""What an epoch does with the records that it leaves out: it counts them, and writes the dead letters of some.

The commit of the epoch lists the letters. They are written where the records are known: by the first stage, of those
that the plan leaves out, and by the driver, of those that a step could not process in the job itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..log.listed import Listed
from ..log.log import Log, Writer, epoch_file_name
from ..operators.order.left_out import records_again
from ..operators.order.partition_group import TakenRecords
from ..records.dead_letters import DeadLetter, letters_table
from ..task_id import TaskKey
from ..tasks.measured import Volume
from ..tasks.plan import EpochPlan, LeftOut, TaskPlan
from ..topology import Topic


def counted(left_out: Iterable[LeftOut]) -> dict[str, int]:
    """How many records count as dropped, by step and reason."""
    return dict(
        Counter(f"{each.step or each.topic}:{'dead_letter' if each.dead_letter else 'skipped'}" for each in left_out)
    )


def letters_of(
    task: TaskPlan, taken: TakenRecords, left_out: Mapping[int, LeftOut], sources: Iterable[Topic], log: Log
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
