"""The encoding of commit records: compact JSON, so that commits can be read by eye.

The fields are those of `records.py` and `descriptions.py`, encoded by `dataclass_json.py`. A snapshot (`parts.py`) has
the same form. `docs/log.md` describes it. A change of the form raises `FORMAT`. An unknown format is an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ...dataclass_json import compact, from_plain, parsed, to_plain
from ..errors import CommitFormatError
from .descriptions import TopicDeclaration, UsedTopic
from .external_records import AppendRecord
from .records import (
    AssignmentRecord,
    CommitRecord,
    EpochRecord,
    GenerationRecord,
    PlacesRecord,
    PurgeRecord,
    RepartitionRecord,
    RewindRecord,
    RewriteRecord,
    SnapshotRecord,
    StoreResetRecord,
    TopicRemovalRecord,
)

FORMAT = 10
"""The newest format. A commit has the oldest format that can read it, so earlier versions can read most commits."""

_WITH_RENAMES = 4

_SINCE: dict[type[CommitRecord], int] = {
    SnapshotRecord: 2,
    PurgeRecord: 2,
    RewriteRecord: 3,
    PlacesRecord: 4,
    RewindRecord: 6,
    TopicRemovalRecord: 6,
    RepartitionRecord: 8,
    StoreResetRecord: 9,
}
"""The format that introduced a type of commit; 1 for all other types."""

DROPPED_DELETIONS = 5
"""The format in which deletions may be dropped. In earlier versions, stores would keep deleted rows."""

RETRIED = 6
"""The format of a commit with redriven dead letters. Earlier versions would redrive them again."""

REPARTITIONED = 8
"""The format in which topics may be repartitioned. Earlier versions would resume at their previous positions."""

STORES_RESET = 9
"""The format in which stores may be reset. Earlier versions would continue with the stores' contents."""

WITH_KAFKA = 10
"""The format of topics in Kafka. Earlier versions would take them for topics without records, and not wait for them."""

_WITH_STARTS = 6
"""The format in which an application may start at other than the first records of its topics."""

_WITH_HANDED = 7
"""The format in which applications may hand over topics. Earlier versions would see two writers of one topic."""

_CHANGED_COLUMNS = 4
"""The format for topics with records of different columns. Earlier versions expect the same columns in all."""

_CHECKSUM = b',"crc32":'
_AT_ONCE = 50
_TYPES: dict[str, type[CommitRecord]] = {
    "generation": GenerationRecord,
    "assignment": AssignmentRecord,
    "epoch": EpochRecord,
    "snapshot": SnapshotRecord,
    "purge": PurgeRecord,
    "rewrite": RewriteRecord,
    "append": AppendRecord,
    "rewind": RewindRecord,
    "topic_removal": TopicRemovalRecord,
    "store_reset": StoreResetRecord,
    "places": PlacesRecord,
    "repartition": RepartitionRecord,
}
_NAMES = {record: name for name, record in _TYPES.items()}

Json = dict[str, Any]


def encode_commit(record: CommitRecord) -> bytes:
    """The bytes of a commit."""
    return dump({"type": _NAMES[type(record)], **to_plain(record)}, _format_of(record))


def _format_of(record: CommitRecord) -> int:
    """The oldest format for the content of a record."""
    match record:
        case GenerationRecord() if (
            has_kafka(record.topology.topics) or record.topology.targets or record.ends is not None
        ):
            return WITH_KAFKA
        case EpochRecord() if record.ends is not None:
            return WITH_KAFKA
        case RewindRecord() if record.kafka_id is not None:
            return WITH_KAFKA
        case RewriteRecord() if any(segment.deletions.horizon for segment in record.segments):
            return DROPPED_DELETIONS
        case AppendRecord() if record.retried is not None:
            return RETRIED
        case GenerationRecord() if record.begins or any(p.starts for p in record.topology.subtopologies.values()):
            return _WITH_STARTS
        case GenerationRecord() if record.renamed is not None:
            return _WITH_RENAMES
        case GenerationRecord():
            return format_with(record.topology.topics.values())
        case AppendRecord() if record.topic is not None:
            return format_with([record.topic])
        case PlacesRecord() if record.places.handed or any(
            rebuilt.takes for rebuilt in record.places.recomputed.values()
        ):
            return _WITH_HANDED
    return _SINCE.get(type(record), 1)


def format_with(topics: Iterable[TopicDeclaration]) -> int:
    """The oldest format for these declarations of topics."""
    return _CHANGED_COLUMNS if any(topic.earlier for topic in topics) else 1


def has_kafka(topics: Mapping[str, UsedTopic]) -> bool:
    """Whether any of these topics is one of Kafka."""
    return any(topic.kafka_id is not None for topic in topics.values())


def decode_commit(data: bytes) -> CommitRecord:
    """The inverse of `encode_commit`. Raises CommitFormatError."""
    body = load(data)
    try:
        return from_plain(_TYPES[body["type"]], body)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CommitFormatError(None, FORMAT) from error


def dump(body: Json, format_: int = 1) -> bytes:
    """JSON without spaces, with the format's number first and a checksum last."""
    data = compact({"format": format_, **body}).encode()
    return b"%b%b%d}" % (data[:-1], _CHECKSUM, zlib.crc32(data))


def dump_in_pieces(body: Json, lists: Mapping[str, Iterable[Any]], format_: int) -> Iterator[bytes]:
    """`dump` of `body` with the further fields `lists`, in pieces that take about 1 ms each."""
    checksum = 0
    for piece in _pieces({"format": format_, **body}, lists):
        checksum = zlib.crc32(piece, checksum)
        yield piece
    yield b"%b%d}" % (_CHECKSUM, zlib.crc32(b"}", checksum))


def _pieces(body: Json, lists: Mapping[str, Iterable[Any]]) -> Iterator[bytes]:
    yield compact(body).encode()[:-1]
    for name, items in lists.items():
        yield b',"%b":[' % name.encode()
        rest, separator = iter(items), b""
        while chunk := list(islice(rest, _AT_ONCE)):
            yield separator + compact(chunk)[1:-1].encode()
            separator = b","
        yield b"]"


def load(data: bytes) -> Json:
    """The inverse of `dump`. Raises CommitFormatError."""
    try:
        body = parsed(data)
    except ValueError as error:
        raise CommitFormatError(None, FORMAT) from error
    if not isinstance(body, dict) or "format" not in body:
        raise CommitFormatError(None, FORMAT)
    if body["format"] not in range(1, FORMAT + 1):
        raise CommitFormatError(body["format"], FORMAT)
    content, _, _ = data.rpartition(_CHECKSUM)
    if body.pop("crc32", None) != zlib.crc32(content + b"}"):
        raise CommitFormatError(None, FORMAT)
    return body
