"""The tasks that have stopped in a run, and when that leaves nothing to do.

A task stops for a record that must not be left out (`record_search`): the others go on, in this application and in
others. It also stops if its stores cannot be restored, or records are missing: then the run ends once all open epochs
are committed, as the machine may be the cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set

from ....errors import HeadwaterError
from ...task_id import TaskKey
from ...topology import Topic, Topology
from ..errors import RecordError, RecordErrors
from ..reports.events import Observer, TaskFailed
from ..waiting.causes import Stop


class FailedTasks:
    """The tasks that have failed in this run. Used from the loop's thread only.

    `tasks`: those that have stopped; they begin no more epochs. `ends_run`: whether the run ends because of them.
    """

    def __init__(self, application: str, observer: Observer) -> None:
        self._application = application
        self._observer = observer
        self._stops: dict[TaskKey, Stop] = {}
        self._errors: list[HeadwaterError] = []
        self.ends_run = False

    @property
    def tasks(self) -> Set[TaskKey]:
        """The tasks that have stopped."""
        return self._stops.keys()

    @property
    def stops(self) -> Mapping[TaskKey, Stop]:
        """Why each of them has."""
        return self._stops

    @property
    def error(self) -> HeadwaterError | None:
        """What to tell of them: the first error that ends the run, or all errors of records; None if there is none."""
        of_records = [error for error in self._errors if isinstance(error, RecordError)]
        if self.ends_run:
            return next(error for error in self._errors if not isinstance(error, RecordError))
        return RecordErrors(of_records) if len(of_records) > 1 else next(iter(of_records), None)

    def add(self, tasks: Iterable[TaskKey], error: HeadwaterError) -> None:
        """Stop tasks."""
        self._errors.append(error)
        self.ends_run = self.ends_run or not isinstance(error, RecordError)
        for task in tasks:
            self._stops[task] = Stop.of(error)
            self._observer.on(
                TaskFailed(self._application, task.subtopology, task.partition, error.message, error.hint)
            )


def stranded(topology: Topology, failed: Collection[TaskKey], ended: Collection[str]) -> bool:
    """Whether no task can get a record any more: it has stopped, or all that it reads is written by tasks that have.

    `ended`: the applications of the run that have ended.
    """
    going: set[str] = set()

    def comes(topic: Topic, written: dict[str, str]) -> bool:
        if topic.name in written:
            return written[topic.name] in going
        return topic.writer is None or topic.writer not in ended

    written = {topic.name: part.name for part in topology.subtopologies for topic in part.sinks}
    while True:
        more = {
            part.name
            for part in topology.subtopologies
            if any(TaskKey(topology.application, part.name, task) not in failed for task in range(part.partitions))
            and any(comes(topic, written) for topic in part.sources)
        }
        if more == going:
            return not going
        going = more
