"""Which deletions of a changelog go, and when: a store whose keys come and go would otherwise grow its log for ever.

Source: `delete.retention.ms` of Kafka, with the delete horizon of KIP-534. In the clean beginning of a lane no key is
twice, so what a deletion there has deleted is gone. Whoever begins at the first position does not need it any more.
Only a store that stands between may have the row, and would keep it. The lane's first segment says up to where that may
be so (`Deletions.horizon`), and such a store begins again from nothing.

So time only makes that rare: a deletion goes once it has been there for a day, and its own store has applied it. The
time is the cleaner's clock, as records have event times. A clock that is wrong costs work and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..segments.segment import Deletions, Segment

DAY_MS = 86_400_000

PART_OF_RECORDS = 8
"""If this part of a segment's records delete, it is written again without them. If fewer do, they wait until it is
written again anyway: a large store of which little is deleted is not rewritten every day."""


@dataclass(frozen=True)
class Kept:
    """Of a changelog: deletions stay for `ms`, and until `store` has applied them in the tasks of `subtopology`."""

    subtopology: str
    store: str
    ms: int = DAY_MS


@dataclass(frozen=True)
class LaneDeletions:
    """The deletions of a lane that begins with the segments `clean`. `said`: what the first segment says of them.

    `kept_ms`: how long they stay. `applied`: the position up to which their store has them. `now`: the time, ms.
    """

    said: Deletions
    clean: Sequence[Segment]
    kept_ms: int
    applied: int
    now: int

    @property
    def due(self) -> int:
        """The position before which deletions may go; 0 if none may, or there is none.

        To drop none would still move the horizon, and stores would begin again for nothing.
        """
        due = self._noted if self.now - self.said.at >= self.kept_ms else 0
        return due if any(each.tombstones != 0 for each in self.clean if each.base_position < due) else 0

    @property
    def worth_dropping(self) -> list[Segment]:
        """The segments to be written again for nothing but the deletions that may go."""
        due = self.due
        return [each for each in self.clean if each.base_position < due and _many(each)]

    @property
    def unnoted(self) -> bool:
        """Whether there are deletions of which is not noted yet that they are there."""
        end = self.clean[-1].end_position if self.clean else 0
        since = max(self.said.horizon, self._noted)
        later = any(_many(each) for each in self.clean if each.end_position > since)
        return later and not self._waits and min(end, self.applied) > since

    def after(self, end: int, dropped: int = 0) -> Deletions:
        """What the first segment says once deletions before `dropped` are gone, and the lane is clean up to `end`."""
        if self._waits:
            return self.said
        horizon, known = max(self.said.horizon, dropped), min(end, self.applied)
        return Deletions(horizon, known, self.now) if known > horizon else Deletions(horizon)

    @property
    def _noted(self) -> int:
        """The position up to which deletions are noted; 0 where a wrong clock has noted them, in the future."""
        return self.said.known if self.said.at <= self.now else 0

    @property
    def _waits(self) -> bool:
        """Whether there are some whose time has not come."""
        return bool(self._noted) and self.now - self.said.at < self.kept_ms


def _many(segment: Segment) -> bool:
    return bool(segment.tombstones) and (segment.tombstones or 0) * PART_OF_RECORDS >= segment.rows
