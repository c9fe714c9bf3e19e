"""Seeds: the records with which a topic begins, from a file or function of the project, in one commit with its hash."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow.compute as pc

from ..log.commit_records import AppendRecord, SeedSource
from ..log.declared_topics import check_unchanged
from ..log.descriptions import FedTopic, declared
from ..log.errors import SeedChangedError, SeededMeanwhileError, SeedError
from ..log.garbage import collect_garbage
from ..log.log import Log
from ..log.state import LogState
from ..topology import Topic
from .append import commit_append, write_incoming
from .csv_rows import csv_rows
from .functions import blamed, project_function
from .incoming import Incoming, join
from .seed_rows import jsonl_rows, parquet_rows, record_rows, yielded_rows

Format = Literal["csv", "jsonl", "parquet", "records"]

CLOCK = 0
"""The timestamp of a seed's records if nothing gives one. They come before all others."""

_READERS: dict[str, Callable[[Path, Topic, int], Iterator[Incoming]]] = {
    "csv": csv_rows,
    "jsonl": jsonl_rows,
    "parquet": parquet_rows,
    "records": record_rows,
}


@dataclass(frozen=True)
class SeedSpec:
    """A topic's `seed:`. Either `path`, relative to the project, or `function`, as `functions.module:name`.

    `format`: of the file; None: its suffix decides. `order`: `time` sorts by timestamp, `file` does not. Records in
    record form are never sorted.
    """

    path: str | None = None
    function: str | None = None
    format: Format | None = None
    order: Literal["time", "file"] = "time"

    @property
    def source(self) -> str:
        """The file or function, for messages."""
        return self.path or self.function or ""


@dataclass(frozen=True)
class SeedResult:
    """The result of seeding a topic. `commit`: the commit with its records. `records`: how many were committed now."""

    topic: str
    outcome: Literal["unchanged", "seeded", "replaced"]
    records: int
    commit: int


def seed(
    log: Log, application: str, topic: Topic, spec: SeedSpec, project_dir: Path, full_refresh: bool = False
) -> SeedResult:
    """Seed a topic once. If its seed is committed already, do nothing.

    `full_refresh`: if the seed or the topic's declaration has changed, start the topic again, without the records that
    were appended. Raises SeedError, SeedChangedError, TopicChangedError.
    """
    state = LogState.load(log.commits(application))
    known = state.seeds.get(topic.name)
    with _opened(topic, spec, project_dir) as (content, rows):
        digest = _digest(topic, spec, content)
        if known is not None and known.hash == digest:
            return SeedResult(topic.name, "unchanged", 0, 0)
        if known is not None and not full_refresh:
            check_unchanged(state, topic)
            raise SeedChangedError(topic.name, spec.source)
        in_file_order = spec.order == "file" or _format(spec) == "records"
        written = write_incoming(log, application, topic, rows if in_file_order else _by_time(topic, rows))
    replace = full_refresh and topic.name in state.topics
    source = SeedSource(topic.name, digest, spec.source)
    record = AppendRecord(time.time_ns() // 1_000_000, written, source, FedTopic.of(topic), replace)
    try:
        result = commit_append(state, topic, record)
    except SeededMeanwhileError:
        return seed(log, application, topic, spec, project_dir, full_refresh)
    collect_garbage(log, application, state)
    return SeedResult(topic.name, "replaced" if replace else "seeded", result.records, result.commit)


@contextmanager
def _opened(topic: Topic, spec: SeedSpec, project_dir: Path) -> Iterator[tuple[str, Iterator[Incoming]]]:
    """A hash of the seed's content, and its rows, which are read on demand."""
    if spec.function is not None:
        with project_function(project_dir, spec.function) as (function, content):
            yield content, _called(spec.function, project_dir, function, topic)
    else:
        path = project_dir / spec.source
        yield _file_hash(path, spec.source), _READERS[_format(spec)](path, topic, CLOCK)


def _called(source: str, project_dir: Path, function: Callable[[], object], topic: Topic) -> Iterator[Incoming]:
    with blamed(source, project_dir):
        found = function()
    if isinstance(found, Iterator):
        found = _each(source, project_dir, found)
    yield from yielded_rows(source, found, topic, CLOCK)


def _each(source: str, project_dir: Path, found: Iterator[object]) -> Iterator[object]:
    """The values that a generator of the project yields."""
    end = object()
    while True:
        with blamed(source, project_dir):
            each = next(found, end)
        if each is end:
            return
        yield each


def _format(spec: SeedSpec) -> str:
    if spec.function is not None:
        return "function"
    found = spec.format or Path(spec.source).suffix.removeprefix(".")
    if found not in _READERS:
        raise SeedError(spec.source, f"of an unknown format; say which with `format:` ({', '.join(_READERS)})")
    return found


def _file_hash(path: Path, name: str) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise SeedError(name, f"there is no file {path}") from error
    except OSError as error:
        raise SeedError(name, error.strerror or str(error)) from error


def _digest(topic: Topic, spec: SeedSpec, content: str) -> str:
    """A hash of everything that decides what is committed: the content, how it is read, and into which columns."""
    read = [content, _format(spec), spec.order, topic.timestamp, {"name": topic.name, **declared(topic)}]
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _by_time(topic: Topic, rows: Iterator[Incoming]) -> Iterator[Incoming]:
    """The rows sorted by timestamp, stable. All are held in memory, unless all have the same timestamp."""
    if topic.timestamp is None:
        yield from rows
        return
    pieces = list(rows)
    if not pieces:
        return
    whole = join(pieces)
    order = pc.sort_indices(whole.table, [("_timestamp", "ascending")])
    partitions = None if whole.partitions is None else whole.partitions[order.to_numpy()]
    yield Incoming(whole.table.take(order), partitions)
