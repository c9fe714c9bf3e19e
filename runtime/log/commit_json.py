"""Commit records as bytes: compact JSON, so that a commit can be read by eye.

`docs/log.md` describes the form. Whatever changes it raises `FORMAT`; a record of another format is refused, never
guessed at.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from .errors import CommitFormatError
from .records import AppendRecord, Batch, CommitRecord, EpochRecord, GenerationRecord, Segment, TaskCommit

FORMAT = 1

_CHECKSUM = b',"crc32":'

Json = dict[str, Any]


def encode_commit(record: CommitRecord) -> bytes:
    """The bytes of a commit."""
    match record:
        case GenerationRecord():
            body: Json = {"type": "generation", "generation": record.generation, "topology": record.topology}
            if record.assignment:
                body["assignment"] = record.assignment
        case EpochRecord():
            tasks = [task_to_json(task) for task in record.tasks]
            body = {"type": "epoch", "incarnation": record.incarnation, "generation": record.generation}
            body |= {"epoch": record.epoch, "tasks": tasks}
        case AppendRecord():
            body = {"type": "append", "topic": record.topic, "source": record.source, "replace": record.replace}
            body["segments"] = [segment_to_json(segment) for segment in record.segments]
    return dump({"at": record.at, **body})


def decode_commit(data: bytes) -> CommitRecord:
    """The inverse of `encode_commit`. Raises CommitFormatError."""
    body = load(data)
    try:
        match body["type"]:
            case "generation":
                return GenerationRecord(body["generation"], body["at"], body["topology"], body.get("assignment", {}))
            case "epoch":
                tasks = tuple(task_from_json(task) for task in body["tasks"])
                return EpochRecord(body["generation"], body["epoch"], body["at"], tasks, body.get("incarnation", ""))
            case "append":
                segments = tuple(segment_from_json(segment) for segment in body["segments"])
                return AppendRecord(body["at"], segments, body["source"], body["topic"], body["replace"])
    except (KeyError, TypeError, ValueError) as error:
        raise CommitFormatError(None, FORMAT) from error
    raise CommitFormatError(None, FORMAT)


def dump(body: Json) -> bytes:
    """JSON with the format's number in front and a checksum behind, without spaces."""
    data = json.dumps({"format": FORMAT, **body}, separators=(",", ":"), ensure_ascii=False).encode()
    return b"%b%b%d}" % (data[:-1], _CHECKSUM, zlib.crc32(data))


def load(data: bytes) -> Json:
    """What `dump` made bytes of. Raises CommitFormatError."""
    try:
        body = json.loads(data)
    except ValueError as error:
        raise CommitFormatError(None, FORMAT) from error
    if not isinstance(body, dict) or "format" not in body:
        raise CommitFormatError(None, FORMAT)
    if body["format"] != FORMAT:
        raise CommitFormatError(body["format"], FORMAT)
    content, _, _ = data.rpartition(_CHECKSUM)
    if body.pop("crc32", None) != zlib.crc32(content + b"}"):
        raise CommitFormatError(None, FORMAT)
    return body


def segment_to_json(segment: Segment) -> Json:
    """A segment as JSON; a batch is a list, as there are many."""
    return {
        "topic": segment.topic,
        "partition": segment.partition,
        "lane": segment.lane,
        "path": segment.path,
        "headers": segment.headers,
        "base_offset": segment.base_offset,
        "base_position": segment.base_position,
        "head": segment.head,
        "head_checksum": segment.head_checksum,
        "batches": [
            [
                batch.start,
                batch.length,
                batch.rows,
                batch.min_timestamp,
                batch.max_timestamp,
                batch.min_order,
                batch.max_order,
                batch.checksum,
            ]
            for batch in segment.batches
        ],
    }


def segment_from_json(body: Json) -> Segment:
    """The inverse of `segment_to_json`."""
    return Segment(**{**body, "batches": tuple(Batch(*batch) for batch in body["batches"])})


def task_to_json(task: TaskCommit) -> Json:
    """A task's commit as JSON."""
    return {
        "subtopology": task.subtopology,
        "partition": task.partition,
        "positions": task.positions,
        "stream_time": task.stream_time,
        "clocks": task.clocks,
        "segments": [segment_to_json(segment) for segment in task.segments],
        "dropped": task.dropped,
        "applied": task.applied,
        "globals": task.globals_,
        "records": task.records,
    }


def task_from_json(body: Json) -> TaskCommit:
    """The inverse of `task_to_json`."""
    return TaskCommit(
        subtopology=body["subtopology"],
        partition=body["partition"],
        positions=_numbered(body["positions"]),
        stream_time=body["stream_time"],
        clocks=body["clocks"],
        segments=tuple(segment_from_json(segment) for segment in body["segments"]),
        dropped=body["dropped"],
        applied=body["applied"],
        globals_=_numbered(body["globals"]),
        records=body["records"],
    )


def _numbered(body: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """JSON has only text for keys; lanes and partitions are numbers."""
    return {name: {int(number): value for number, value in inner.items()} for name, inner in body.items()}
