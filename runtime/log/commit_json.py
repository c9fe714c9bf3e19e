"""Commit records as bytes: compact JSON, so that people can read a commit.

The fields are those of `commit_records.py` and `descriptions.py`, written by the rules of `dataclass_json.py`. A
snapshot (`snapshot.py`) has the same form. `docs/log.md` describes it. A change of the form raises `FORMAT`. A record
of another format is refused, never guessed at.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from ..dataclass_json import compact, from_plain, to_plain
from .commit_records import (
    AppendRecord,
    AssignmentRecord,
    CommitRecord,
    EpochRecord,
    GenerationRecord,
    PurgeRecord,
    SnapshotRecord,
)
from .errors import CommitFormatError

FORMAT = 2
"""The newest. A commit has the oldest format that can read it, so that earlier versions read on as long as they can."""

_SINCE: dict[type[CommitRecord], int] = {SnapshotRecord: 2, PurgeRecord: 2}
"""The formats that types of commits came with; the others were there from the first."""

_CHECKSUM = b',"crc32":'
_TYPES: dict[str, type[CommitRecord]] = {
    "generation": GenerationRecord,
    "assignment": AssignmentRecord,
    "epoch": EpochRecord,
    "snapshot": SnapshotRecord,
    "purge": PurgeRecord,
    "append": AppendRecord,
}
_NAMES = {record: name for name, record in _TYPES.items()}

Json = dict[str, Any]


def encode_commit(record: CommitRecord) -> bytes:
    """The bytes of a commit."""
    return dump({"type": _NAMES[type(record)], **to_plain(record)}, _SINCE.get(type(record), 1))


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


def load(data: bytes) -> Json:
    """The inverse of `dump`. Raises CommitFormatError."""
    try:
        body = json.loads(data)
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
