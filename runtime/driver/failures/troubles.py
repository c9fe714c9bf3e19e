"""What happens to tasks that came to nothing in an epoch for a reason that is no record's. See `docs/tasks.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...progress.committed import Committed
from ...task_id import TaskKey
from ...tasks.errors import TaskCorruptedError
from ...tasks.outcome import TaskOutcome, Trouble
from ...tasks.stream_task import StreamTask
from ..errors import JobError
from ..group.group import Group
from ..group.member import GroupMember
from ..reports.events import Observer, TaskBeginsAgain
from .failed_tasks import FailedTasks


class Troubles:
    """Has troubled tasks begin again; the others of the epoch are not touched. Used from the loop's thread only.

    `examined`: tasks whose stores have been looked at since they committed last. If the worker of such a task is ended
    by the system, the stores are not the cause.
    """

    def __init__(
        self, application: str, group: Group, committed: Committed, failed: FailedTasks, observer: Observer
    ) -> None:
        self._application = application
        self._observer = observer
        self._group = group
        self._committed = committed
        self._failed = failed
        self.examined: frozenset[TaskKey] = frozenset()

    def settle(self, member: GroupMember, tasks: Sequence[StreamTask], outcomes: Sequence[TaskOutcome]) -> None:
        """Do what the outcomes of an epoch ask for. Raises DamagedAgainError.

        Corrupted or migrated: the stores are examined and restored, as far as their changelogs can be read. Migrated
        means here that a store is further than its plan, and as no other driver has this one's generation, its position
        is to be looked up again. Missing records: nothing, if others have taken their place since the epoch was
        planned, as the next plan has these; else the task fails, or the store that lacks them is examined. An old
        assignment: nothing, as the next plan has the new one. The wrong client: all of the client's tasks are lost, and
        it joins again, which is what Kafka Streams does about TaskMigratedException.
        """
        troubled = {each.key(self._application): each.trouble for each in outcomes if each.trouble is not None}
        fine = [task.id for task in tasks if task.id.key(self._application) not in troubled]
        self._group.went_well(fine)
        self.examined -= {task.key(self._application) for task in fine}
        if any(trouble.kind == "wrong_client" for trouble in troubled.values()):
            self._group.lose(member)
            return
        missing = self._missing(troubled)
        for key in [key for key, each in missing.items() if not each.store]:
            gone = missing.pop(key)
            error = JobError(self._application, key.subtopology, gone.cause, gone.way_out or None)
            self._failed.add([key], error)
        damaged = missing | {key: each for key, each in troubled.items() if each.kind in ("corrupted", "migrated")}
        self.examined |= damaged.keys()
        for key, each in damaged.items():
            self._observer.on(
                TaskBeginsAgain(self._application, key.subtopology, key.partition, member.client.name, each.cause)
            )
        for way_out in dict.fromkeys(each.way_out for each in damaged.values()):
            alike = {key: each.cause for key, each in damaged.items() if each.way_out == way_out}
            ids = [task.id for task in tasks if task.id.key(self._application) in alike]
            causes = "; ".join(dict.fromkeys(alike.values()))
            self._group.recover(member, ids, TaskCorruptedError(causes, ids, way_out=way_out or None))

    def _missing(self, troubled: Mapping[TaskKey, Trouble]) -> dict[TaskKey, Trouble]:
        """The tasks for which records are missing that commits list."""
        missing = {key: each for key, each in troubled.items() if each.kind == "missing"}
        return {key: each for key, each in missing.items() if self._committed.lists(each.path)}
