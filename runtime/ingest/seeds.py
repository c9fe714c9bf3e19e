"""Seeds: the records with which a topic begins, from a file or function of the project, in one commit with its hash."""

from __future__ import annotations

import hashlib
import json
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow.compute as pc

from ...unusable_paths import kind_of
from ..log.commit.descriptions import FedTopic, declared
from ..log.commit.fed_records import AppendRecord, SeedSource
from ..log.declared_topics import check_readable
from ..log.errors import SeedChangedError, SeededMeanwhileError, SeedError
from ..log.garbage import collect_garbage
from ..log.log import Log
from ..log.state import LogState
from ..records.arrays import pieces_in_order, to_numpy
from ..topology import Topic
from .append import WRITE_BYTES, commit_append, write_incoming
from .appended import Appended, check_appended
from .csv_rows import csv_rows
from .functions import blamed, project_function
from .incoming import Incoming, join
from .seed_difference import seed_difference
from .seed_files import SeedFiles
from .seed_rows import jsonl_rows, parquet_rows, record_rows, yielded_rows
from .sieve import RefusedRows, Sieve

Format = Literal["csv", "jsonl", "parquet", "records"]

CLOCK = 0
"""The timestamp of a seed's records if nothing gives one. They come before all others."""

_READERS: dict[str, Callable[[Path, Topic, int, Sieve], Iterator[Incoming]]] = {
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
    """The result of seeding a topic. `commit`: the commit with its records. `records`: how many of the seed were
    committed now, `appended`: how many that had been appended were put behind them again. `refused`: rows that the
    topic cannot hold, and that were left out.
    """

    topic: str
    outcome: Literal["unchanged", "seeded", "replaced"]
    records: int
    commit: int
    appended: int = 0
    refused: RefusedRows = field(default_factory=RefusedRows)


def seed(
    log: Log,
    application: str,
    topic: Topic,
    spec: SeedSpec,
    project_dir: Path,
    full_refresh: bool = False,
    keep_unchanged: bool = False,
    drop_appended: bool = False,
    files: SeedFiles | None = None,
) -> SeedResult:
    """Seed a topic once. If its seed is committed already, do nothing.

    `full_refresh`: start the topic again with the seed, and with the records that were appended behind it, unless
    `drop_appended`; with `keep_unchanged` only if the seed or the topic's declaration has changed. `files`: what is
    known of them. Raises SeedError, SeedChangedError, TopicChangedError, AppendedUnknownError, AppendedOtherwiseError.
    """
    state = LogState.load(log.commits(application))
    known = state.seeds.get(topic.name)
    again = full_refresh and topic.name in state.topics
    sieve = Sieve(topic)
    with _opened(topic, spec, project_dir, sieve, files) as (content, rows):
        source = SeedSource(topic.name, _digest(topic, spec, content), spec.source)
        if known is not None and known.hash == source.hash and (keep_unchanged or not full_refresh):
            return SeedResult(topic.name, "unchanged", 0, 0)
        rows = _ordered(topic, spec, rows)
        if known is not None and not full_refresh:
            if not _waits(state, topic):
                check_readable(state, topic)
            return replace(_same_records(log, state, topic, source, rows), refused=sieve.refused)
        if again and not drop_appended:
            check_appended(state, topic)
        written = write_incoming(log, application, topic, rows)
    record = AppendRecord(_now(), written, source, FedTopic.of(topic), again)
    kept = None if drop_appended else Appended(log, application, topic).written_again
    try:
        result = commit_append(state, topic, record, kept if again else None)
    except SeededMeanwhileError:
        return seed(log, application, topic, spec, project_dir, full_refresh, keep_unchanged, drop_appended, files)
    collect_garbage(log, application, state)
    new = sum(each.rows for each in written)
    outcome: Literal["seeded", "replaced"] = "replaced" if again else "seeded"
    return SeedResult(topic.name, outcome, new, result.commit, result.records - new, sieve.refused)


def check_again(
    state: LogState,
    topic: Topic,
    spec: SeedSpec,
    project_dir: Path,
    files: SeedFiles,
    *,
    keep_unchanged: bool,
    drop_appended: bool,
) -> bool:
    """Whether `seed` with a full refresh would write the seed of a topic. Then its file is read, to see that it can be.

    `files`: what is known of them. No function is called. Raises SeedError, AppendedUnknownError,
    AppendedOtherwiseError.
    """
    known = state.seeds.get(topic.name)
    with _opened(topic, spec, project_dir, Sieve(topic), files) as (content, rows):
        digest = _digest(topic, spec, content)
        if keep_unchanged and known is not None and known.hash == digest:
            return False
        if topic.name in state.topics and not drop_appended:
            check_appended(state, topic)
        if spec.path is not None:
            files.once(project_dir / spec.path, f"rows of {digest}", lambda: str(sum(map(len, rows))))
    return True


def _same_records(log: Log, state: LogState, topic: Topic, source: SeedSource, rows: Iterable[Incoming]) -> SeedResult:
    """Note another source of the same records, as the topic has them now. Raises SeedChangedError if they differ."""
    known = state.seeds[topic.name]
    if difference := seed_difference(log, state, topic, rows):
        raise SeedChangedError(topic.name, source.path, difference)
    if _waits(state, topic):  # the next run puts its records there, and the seed is noted then
        return SeedResult(topic.name, "unchanged", 0, 0)
    commit_append(state, topic, AppendRecord(_now(), (), replace(source, parts=known.parts)))
    return SeedResult(topic.name, "unchanged", 0, 0)


def _waits(state: LogState, topic: Topic) -> bool:
    """Whether a run is going to put the topic's records elsewhere."""
    known = state.topics.get(topic.name)
    return known is not None and known.can_move_to(topic)


def _now() -> int:
    return time.time_ns() // 1_000_000


def other_records(log: Log, state: LogState, topic: Topic, spec: SeedSpec, project_dir: Path) -> str | None:
    """How a file gives other records than its committed seed has, in words; None if they are the same.

    Raises SeedError, and errors of the log.
    """
    with _opened(topic, spec, project_dir, Sieve(topic)) as (_, rows):
        return seed_difference(log, state, topic, _ordered(topic, spec, rows))


def seed_rows(topic: Topic, spec: SeedSpec, project_dir: Path) -> list[Incoming]:
    """The records of a seed, in the order in which they are committed. Raises SeedError."""
    with _opened(topic, spec, project_dir, Sieve(topic)) as (_, rows):
        return list(_ordered(topic, spec, rows))


def seed_digest(topic: Topic, spec: SeedSpec, project_dir: Path, files: SeedFiles | None = None) -> str:
    """A hash of everything that decides what a seed commits. Raises SeedError."""
    with _opened(topic, spec, project_dir, Sieve(topic), files) as (content, _):
        return _digest(topic, spec, content)


@contextmanager
def _opened(
    topic: Topic, spec: SeedSpec, project_dir: Path, sieve: Sieve, files: SeedFiles | None = None
) -> Iterator[tuple[str, Iterator[Incoming]]]:
    """A hash of the seed's content, and its rows, which are read on demand."""
    if spec.function is not None:
        with project_function(project_dir, spec.function) as (function, content):
            yield content, sieve.to_the_end(_called(spec.function, project_dir, function, topic, sieve))
    else:
        path = project_dir / spec.source
        content = (files or SeedFiles()).once(path, "hash", lambda: _file_hash(path, spec.source))
        yield content, sieve.to_the_end(_READERS[_format(spec)](path, topic, CLOCK, sieve))


def _called(
    source: str, project_dir: Path, function: Callable[[], object], topic: Topic, sieve: Sieve
) -> Iterator[Incoming]:
    with blamed(source, project_dir):
        found = function()
    if isinstance(found, Iterator):
        found = _each(source, project_dir, found)
    yield from yielded_rows(source, found, topic, CLOCK, sieve)


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
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a pipe is waited for, and can be read once only
            raise SeedError(
                name,
                f"{kind_of(mode)}, and no file",
                hint="a seed is read several times: write what it gives to a file, or append it with "
                "`headwater seed TOPIC --append --file`",
            )
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


def _ordered(topic: Topic, spec: SeedSpec, rows: Iterator[Incoming]) -> Iterator[Incoming]:
    return rows if spec.order == "file" or _format(spec) == "records" else by_time(topic, rows)


def by_time(topic: Topic, rows: Iterator[Incoming]) -> Iterator[Incoming]:
    """The rows sorted by timestamp, stable, in pieces of about WRITE_BYTES. All are held in memory, unless all have the
    same timestamp.
    """
    if topic.timestamp is None:
        yield from rows
        return
    pieces = list(rows)
    if not pieces:
        return
    whole = join(pieces)
    order = pc.sort_indices(whole.table, [("_timestamp", "ascending")])
    for table, taken in pieces_in_order(whole.table, to_numpy(order).astype(np.int64), WRITE_BYTES):
        yield Incoming(table, None if whole.partitions is None else whole.partitions[taken])
