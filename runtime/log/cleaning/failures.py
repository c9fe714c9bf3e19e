"""Segments that cannot be cleaned. They are left alone for a while, and hold nothing else up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ....errors import HeadwaterError
from ..errors import LogError, SegmentError
from ..segments.segment import Segment
from .jobs import Job, Lane

RETRY_SECONDS = 600.0
"""What has failed is tried again after that: a file may have been put back. Before, only without its segments."""

Place = tuple[str, str, int, int, int]


class LaneFailedError(LogError):
    """A lane of a topic cannot be cleaned, for a reason that nobody has thought of: `topic`, `partition`, `lane`."""

    def __init__(self, lane: Lane, cause: Exception) -> None:
        super().__init__(
            f"{lane.topic}, partition {lane.partition}, lane {lane.lane}, cannot be cleaned: "
            f"{type(cause).__name__}: {cause}"
        )
        self.topic = lane.topic
        self.partition = lane.partition
        self.lane = lane.lane


class Failures:
    """Which segments have made jobs fail. `seconds`: a clock that never goes back."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._failed: dict[Place, tuple[float, HeadwaterError]] = {}

    def begin(self) -> None:
        """A round begins: forget what is to be tried again."""
        now = self._seconds()
        self._failed = {place: each for place, each in self._failed.items() if each[0] > now}

    def of(self, job: Job) -> HeadwaterError | None:
        """Why a job is to be left alone; None if it may be tried."""
        return next((self._failed[place][1] for place in _places(job) if place in self._failed), None)

    def add(self, job: Job, error: HeadwaterError) -> None:
        """A job has failed. If nobody knows because of which file, all of its segments are left alone."""
        retry = self._seconds() + RETRY_SECONDS
        path = error.path if isinstance(error, SegmentError) else None
        self._failed.update({place: (retry, error) for place in _places(job) if path in (None, place[0])})


def _places(job: Job) -> Iterator[Place]:
    groups: Iterable[Iterable[Segment]] = (job.keyed, *job.groups)
    for segment in (each for group in groups for each in group):
        yield segment.path, segment.topic, segment.partition, segment.lane, segment.base_position
