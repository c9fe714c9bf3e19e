"""Errors of committed progress that stop a run. Each carries its facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import HeadwaterError

if TYPE_CHECKING:
    from .positions import Gap, OtherCommits


class FencedError(HeadwaterError):
    """Another driver has taken the application over. `generation` is that driver's.

    None: the application was fully refreshed, with new generations. `mine`: this run's generation;
    None if it has not claimed the application yet.
    """

    def __init__(self, application: str, mine: int | None, generation: int | None) -> None:
        if generation is None:
            what = f"{application} was fully refreshed by another run"
        else:
            own = "" if mine is None else f", this one is {mine}"
            what = f"another run of {application} has started (generation {generation}{own})"
        super().__init__(f"{what}; this run stops", "let only one run of an application work on a log")
        self.application = application
        self.mine = mine
        self.generation = generation


class TopicRepartitionedError(HeadwaterError):
    """Another run has put the records of a topic into other partitions, which are read from their first records.

    `application`: that has read it, `topic`, `partitions` and `key`: what it has now.
    """

    def __init__(self, application: str, topic: str, partitions: int, key: str) -> None:
        super().__init__(
            f"the records of {topic} were put elsewhere by another run, by the key {key or '(none)'} into "
            f"{partitions} partition{'' if partitions == 1 else 's'}; this run of {application} stops",
            "run the project that declares it so: what was committed so far stays until that has computed it again",
        )
        self.application = application
        self.topic = topic
        self.partitions = partitions
        self.key = key


class ConsumedRecordsMissingError(HeadwaterError):
    """The log does not hold the records of a topic that the application has consumed. `gaps`: topics and positions,
    or commits.
    """

    def __init__(self, application: str, gaps: Sequence[Gap | OtherCommits]) -> None:
        listed = "".join(f"\n  - {gap}" for gap in gaps)
        super().__init__(
            f"{application} has consumed records that the log does not hold any more:{listed}",
            "the log was changed by hand or put back in parts: put all of it back as it was at one moment, "
            "or start this application again from the beginning with --full-refresh",
        )
        self.application = application
        self.gaps = tuple(gaps)
