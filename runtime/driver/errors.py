"""Ways in which a run ends other than by catching up. Each carries its facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import HeadwaterError, shortened

MOST_OF_A_RECORD = 2_000
"""Characters of a record in a message; each of its values is shorter."""

if TYPE_CHECKING:
    from ..progress.positions import Gap


class FencedError(HeadwaterError):
    """Another driver has taken the application over: `generation` is the one that was claimed since.

    None: the application was started again from the beginning, with generations of its own. `mine`: of this run; None
    where it has not claimed the application yet.
    """

    def __init__(self, application: str, mine: int | None, generation: int | None) -> None:
        if generation is None:
            what = f"{application} was started again from the beginning by another run"
        else:
            own = "" if mine is None else f", this one is {mine}"
            what = f"another run of {application} has started (generation {generation}{own})"
        super().__init__(f"{what}; this run stops", "let only one run of an application work on a log")
        self.application = application
        self.mine = mine
        self.generation = generation


class RecordError(HeadwaterError):
    """A record that a step could not process. Nothing of its task's epoch was committed.

    `value` is the record in JSON, its long values shortened; `step` its YAML position `file:line`, empty when it could
    not be found.
    """

    def __init__(
        self,
        *,
        subtopology: str,
        task_partition: int,
        topic: str,
        partition: int,
        offset: int,
        step: str,
        value: str,
        cause: str,
    ) -> None:
        where = f"{step}: " if step else ""
        super().__init__(
            f"{where}record {topic}[{partition}]@{offset} cannot be processed: {shortened(cause)}\n"
            f"  record: {shortened(value, MOST_OF_A_RECORD)}",
            "nothing of this task's epoch is committed; fix the step or the data and run again; "
            f"`headwater read {topic} --from {offset} --format json` shows all of the record",
        )
        self.subtopology = subtopology
        self.task_partition = task_partition
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.step = step
        self.value = value
        self.cause = cause


class IncompatibleStateError(HeadwaterError):
    """The project no longer fits the committed state; `differences` lists each place."""

    def __init__(self, application: str, differences: Sequence[str]) -> None:
        listed = "".join(f"\n  - {difference}" for difference in differences)
        super().__init__(
            f"{application} no longer fits its committed state:{listed}",
            "undo the change, or start it and what reads it again from the first record: headwater run --full-refresh "
            f"--select '{application.partition('-')[2]}+'",
        )
        self.application = application
        self.differences = tuple(differences)


class ConsumedRecordsMissingError(HeadwaterError):
    """The log holds fewer records of a topic than the application has consumed; `gaps` has topics and positions."""

    def __init__(self, application: str, gaps: Sequence[Gap]) -> None:
        listed = "".join(f"\n  - {gap}" for gap in gaps)
        super().__init__(
            f"{application} has consumed records that the log does not hold any more:{listed}",
            "the log was changed by hand or put back in parts: put all of it back as it was at one moment, "
            "or start this application again from the beginning with --full-refresh",
        )
        self.application = application
        self.gaps = tuple(gaps)


class ClientLostError(HeadwaterError):
    """An executor is gone, and with it the client whose tasks it ran. What it had not committed does not exist."""

    def __init__(self, application: str, client: str) -> None:
        super().__init__(
            f"{client} of {application} is gone: its executor has ended",
            "run again: tasks are placed anew on the executors there are, and go on from the last commit",
        )
        self.application = application
        self.client = client


class SharedStateError(HeadwaterError):
    """Two executors keep state in one directory, each as if it were alone: `clients`, `path`."""

    def __init__(self, application: str, clients: Sequence[str], path: str) -> None:
        super().__init__(
            f"{' and '.join(clients)} have one state directory, {path}, and do not see each other's processes",
            "give executors that run in containers a state_dir of their own each",
        )
        self.application = application
        self.clients = tuple(clients)
        self.path = path


class SparkEndedError(HeadwaterError):
    """Spark's JVM is gone, and with it the session. What was committed stands."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's JVM has ended; was it killed, for want of memory?",
            "run again: it goes on from the last commit; if it ends again, see what the system's log says of it, and "
            "raise `driver.memory` in the profile",
        )


class JobError(HeadwaterError):
    """An epoch's job failed, and no record could be found to blame: `hint` is the way out, where one is known."""

    def __init__(self, application: str, subtopology: str, cause: str, hint: str | None = None) -> None:
        super().__init__(
            f"the epoch's job of {application}, subtopology {subtopology}, failed: {shortened(cause)}", hint
        )
        self.application = application
        self.subtopology = subtopology
        self.cause = cause
