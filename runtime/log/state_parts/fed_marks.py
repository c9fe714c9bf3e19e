"""Which records of a topic that is fed from outside came before which, over all of its partitions.

Offsets order the records of one partition. When the records are put into other partitions, those of several come to lie
in one, in the order in which they were fed. Each commit feeds one topic; so a mark is where its partitions ended
after a commit. Marks are thinned as they become many: then neighbouring commits have no order among partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_NUMBERS = 8_192
"""Numbers that the marks of a topic may have, one for each partition in each mark. Twice as many are thinned."""

Mark = tuple[int, ...]
"""The end of each partition: the offset that its next record gets, or a later one."""


@dataclass
class FedMarks:
    """The marks of the topics of one application, the oldest first."""

    _found: dict[str, list[Mark]] = field(default_factory=dict)

    @classmethod
    def of_all(cls, found: Mapping[str, tuple[Mark, ...]]) -> FedMarks:
        """Those of a snapshot."""
        return cls({topic: list(each) for topic, each in found.items()})

    def of(self, topic: str) -> tuple[Mark, ...]:
        """Those of a topic. None of logs of versions that kept none."""
        return tuple(self._found.get(topic, ()))

    def add(self, topic: str, ends: Mark) -> None:
        """After a commit that has fed the topic."""
        marks = self._found.setdefault(topic, [])
        if not marks or marks[-1] != ends:
            marks.append(ends)
        if len(marks) > 2 and len(marks) * len(ends) > 2 * MOST_NUMBERS:
            del marks[: len(marks) - len(marks) % 2 : 2]  # the later one of each two stays, and so does the last

    def replace(self, topic: str, marks: tuple[Mark, ...]) -> None:
        """For records that lie elsewhere."""
        self._found[topic] = list(marks)

    def forget(self, topic: str) -> None:
        """For a topic that begins again, or that is gone."""
        self._found.pop(topic, None)

    def all(self) -> dict[str, tuple[Mark, ...]]:
        """Those of all topics."""
        return {topic: tuple(each) for topic, each in self._found.items() if each}
