"""Which thread of a client runs which of its tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..task_id import TaskId


def deal_to_threads(tasks: Collection[TaskId], threads: int) -> tuple[tuple[TaskId, ...], ...]:
    """The tasks of each thread, in the order in which they run.


    Tasks are dealt by id, so numbers differ by at most one. The same tasks are always dealt the same way. Partitions of
    one subtopology go to different threads.
    """
    in_order = sorted(tasks)
    return tuple(tuple(in_order[thread::threads]) for thread in range(threads))


@dataclass
class ConsumerTasks:
    """The tasks of one consumer, in the order in which they were dealt."""

    active: list[TaskId] = field(default_factory=list)
    standby: list[TaskId] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.active) + len(self.standby)


def deal_to_consumers(
    consumers: Collection[str],
    stateful: Collection[TaskId],
    standbys: Collection[TaskId],
    stateless: Collection[TaskId],
    previous: Mapping[str, Sequence[TaskId]] | None = None,
) -> dict[str, ConsumerTasks]:
    """The tasks of a client by consumer, dealt so that their total numbers differ by at most one.

    `previous`: the tasks with state that each consumer had, those with the smallest lag first. A consumer keeps these
    as far as the numbers allow. Tasks without state go to any consumer.
    """
    dealt = {consumer: ConsumerTasks() for consumer in sorted(consumers)}
    for tasks, previous_of_kind, role in (
        (stateful, previous or {}, "active"),
        (standbys, previous or {}, "standby"),
        (stateless, {}, "active"),
    ):
        before = {consumer: len(own) for consumer, own in dealt.items()}
        for consumer, own in _deal(tasks, before, previous_of_kind).items():
            getattr(dealt[consumer], role).extend(own)
    return dealt


def _deal(
    tasks: Collection[TaskId], before: Mapping[str, int], previous: Mapping[str, Sequence[TaskId]]
) -> dict[str, list[TaskId]]:
    """Deal the tasks of one kind. `before`: how many tasks of other kinds each consumer has.

    First all consumers are filled up to the same number, with tasks they had and then with others in turn. Then some
    consumers get one more each, their own previous tasks first.
    """
    dealt: dict[str, list[TaskId]] = {consumer: [] for consumer in before}
    if not dealt:
        return dealt
    left = dict.fromkeys(sorted(tasks))
    least = (len(tasks) + sum(before.values())) // len(before)
    wanted: dict[TaskId, str] = {}
    for consumer, own in dealt.items():
        for task in previous.get(consumer, ()):
            if task in left:
                if len(own) < least - before[consumer]:
                    own.append(task)
                    del left[task]
                else:
                    wanted[task] = consumer
    to_fill = [consumer for consumer, own in dealt.items() if len(own) + before[consumer] < least]
    rest = deque(left)
    while to_fill:
        for consumer in to_fill:
            dealt[consumer].append(rest.popleft())
        to_fill = [consumer for consumer in to_fill if len(dealt[consumer]) + before[consumer] < least]
    one_more = [consumer for consumer, own in dealt.items() if len(own) + before[consumer] == least]
    for task in list(rest):
        if wanted.get(task) in one_more:
            dealt[wanted[task]].append(task)
            one_more.remove(wanted[task])
            rest.remove(task)
    for task, consumer in zip(rest, one_more, strict=False):
        dealt[consumer].append(task)
    return dealt
