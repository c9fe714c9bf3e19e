"""Where the segments of a commit record come to lie: at the ends of their partitions, in the order of the record.

An append that replaces its topic begins at 0 again, and so does a topic that is put into other partitions: what the
topic had is taken out first. A rewrite's segments have the places of those that they replace.
"""

from __future__ import annotations

from dataclasses import replace

from ..commit.fed_records import AppendRecord
from ..commit.records import CommitRecord, EpochRecord, RepartitionRecord, RewriteRecord, TopicRemovalRecord
from ..errors import RewriteOrderError, SegmentsChangedError
from ..segments.partitions import Partitions
from ..segments.segment import Segment


def placed_in(record: CommitRecord, partitions: Partitions) -> CommitRecord:
    """The record with the offsets and positions that its segments get if it is committed next.

    Raises SegmentsChangedError if those that a rewrite replaces are not there.
    """
    if isinstance(record, RewriteRecord):
        partitions.replaced_by(record.segments)
        return record
    segments = _before(record, partitions).place(_segments(record))
    match record:
        case EpochRecord():
            rest = iter(segments)
            tasks = (replace(task, segments=tuple(next(rest) for _ in task.segments)) for task in record.tasks)
            return replace(record, tasks=tuple(tasks))
        case AppendRecord() | RepartitionRecord():
            return replace(record, segments=segments)
    return record


def grown_by(record: CommitRecord, partitions: Partitions, commit: int) -> Partitions:
    """The partitions after a record that is commit number `commit`: the same, with its segments, or new ones.

    Raises CommitOrderError, and changes nothing, if its segments do not come next, and RewriteOrderError if a rewrite
    replaces some that are not there.
    """
    if isinstance(record, RewriteRecord):
        try:
            partitions.replaced_by(record.segments)
        except SegmentsChangedError as error:
            raise RewriteOrderError(commit, error) from error
        return partitions  # `FoldedCommits.apply` does it, and notes which files are left over
    after = _before(record, partitions)
    segments = _segments(record)
    after.check(segments, commit)
    after.add(segments)
    return after


def _before(record: CommitRecord, partitions: Partitions) -> Partitions:
    """The partitions at whose ends the segments of a record are placed."""
    if isinstance(record, AppendRecord) and record.replace and record.topic:
        return partitions.without(record.topic.name)
    if isinstance(record, TopicRemovalRecord):
        return partitions.without(record.topic)
    if isinstance(record, RepartitionRecord):
        for each in record.topics:
            partitions = partitions.without(each.topic.name)
    return partitions


def _segments(record: CommitRecord) -> tuple[Segment, ...]:
    match record:
        case EpochRecord():
            return tuple(segment for task in record.tasks for segment in task.segments)
        case AppendRecord() | RepartitionRecord():
            return record.segments
    return ()
