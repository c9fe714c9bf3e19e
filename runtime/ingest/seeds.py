"""Seeds, and what of them is new."""

from __future__ import annotations

import hashlib
import json
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...unusable_paths import file_kind
from ..ir.topology import Topic
from ..log.commit.descriptions import ExternalTopic, declaration_fields
from ..log.commit.external_records import AppendRecord, SeededPart, SeedSource
from ..log.declared_topics import check_readable
from ..log.durable_files import collect_garbage
from ..log.errors import SeedChangedError, SeededMeanwhileError, SeedError
from ..log.log import Log
from ..log.state import LogState
from ..records.arrays import pieces_in_order, to_numpy
from ..records.keys import encode_keys
from ..records.schema import as_schema, key_columns, topic_schema
from .append import WRITE_BYTES, Appended, check_appended, commit_append, placed, write_incoming
from .functions import blamed, project_function
from .incoming import Incoming, join
from .record_form import RefusedRows, Sieve
from .repartition import in_order, rekeyed, went_in_turns
from .seed_rows import csv_rows, jsonl_rows, parquet_rows, record_rows, yielded_rows

# What a command has found out about the files of seeds, so that it reads none twice for the same question.

_Mark = tuple[int, ...]

_SETTLED_NS = 2_000_000_000
"""A file that has changed more recently may change again and still have the same times, as clocks of file systems are
coarse: it is read again.
"""


class SeedFiles:
    """Answers count for as long as a file is the same one, and has the same size and times."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, _Mark, str], str] = {}

    def once(self, path: Path, question: str, answer: Callable[[], str]) -> str:
        """What `answer` says of a file, which is asked once for each state of it. Raises what `answer` raises."""
        before = _mark(path)
        if before is not None and (path, before, question) in self._known:
            return self._known[path, before, question]
        found = answer()
        if before is not None and before == _mark(path):
            self._known[path, before, question] = found
        return found


def _mark(path: Path) -> _Mark | None:
    """By what a state of a file is known; None if it could not be told from the next one, or there is no file."""
    now = time.time_ns()
    try:
        found = path.stat()
    except OSError:
        return None
    if now - found.st_mtime_ns < _SETTLED_NS:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


# How the rows that a seed gives now differ from its committed records.


def seed_difference(log: Log, state: LogState, topic: Topic, rows: Iterable[Incoming]) -> str | None:
    """In words; None if they are the same, with the columns that the topic has now. Both are held in memory.

    Raises SeedError, and errors of the log.
    """
    parts = state.seeds[topic.name].parts
    if parts is None:
        return "what it gave then is not known, as an earlier version has written it"
    schema = topic_schema(topic, headers=True)
    recorded = state.topics.get(topic.name)
    if recorded is not None and (recorded.moved or recorded.can_move_to(topic)):
        return _difference_by_key(log, state, topic, parts, rows, schema)
    then = [_committed(log, state, topic.name, part, schema) for part in parts]
    now = _given(topic, rows, schema)
    counts = [sum(table.num_rows for table in tables) for tables in (then, now.values())]
    if counts[0] != counts[1]:
        return _other_count(counts[1], counts[0])
    known = {part.partition: table for part, table in zip(parts, then, strict=True) if table.num_rows}
    if known.keys() != now.keys() or any(known[each].num_rows != now[each].num_rows for each in now):
        return "its records go to other partitions"
    names = [name for name in schema.names if any(not known[each][name].equals(now[each][name]) for each in now)]
    return _other_values(names)


def _difference_by_key(
    log: Log, state: LogState, topic: Topic, parts: Sequence[SeededPart], rows: Iterable[Incoming], schema: pa.Schema
) -> str | None:
    """The same of records that do not lie where the seed has put them. Those of a key have kept their order."""
    by_time = bool(state.topics[topic.name].key) or not went_in_turns([each.end - each.start for each in parts])
    other_key = state.topics[topic.name].key != topic.key
    pieces = in_order([iter(_raw(log, state, topic.name, each)) for each in parts], by_time=by_time)
    found = (rekeyed(topic, each) if other_key else each for each in pieces)
    then = _by_key(topic, _whole([as_schema(each, schema) for each in found], schema))
    given = [as_schema(batch, schema) for table, _ in placed(topic, rows) for batch in table.to_batches()]
    now = _by_key(topic, _whole(given, schema))
    if then.num_rows != now.num_rows:
        return _other_count(now.num_rows, then.num_rows)
    return _other_values([name for name in schema.names if not then[name].equals(now[name])])


def _by_key(topic: Topic, records: pa.Table) -> pa.Table:
    """Records sorted by key; those of a key keep their order, and those without one come by time."""
    names = key_columns(topic)
    if not names or not records.num_rows:
        return records
    keys = encode_keys([records[f"key.{name}"].combine_chunks() for name in names])
    times = pc.if_else(pc.is_valid(keys), 0, records["_timestamp"].combine_chunks())
    order = pc.sort_indices(
        pa.table({"key": keys, "time": times, "row": pa.array(np.arange(records.num_rows))}),
        [("key", "ascending"), ("time", "ascending"), ("row", "ascending")],
    )
    return pa.concat_tables(
        [table for table, _ in pieces_in_order(records, to_numpy(order).astype(np.int64), WRITE_BYTES)]
    )


def _raw(
    log: Log, state: LogState, topic: str, part: SeededPart, schema: pa.Schema | None = None
) -> list[pa.RecordBatch]:
    """The records of a seed in a partition."""
    found: list[pa.RecordBatch] = []
    for within in state.ranges(topic, part.partition, part.start):
        if within.start_offset < part.end:
            for fetched in log.read(within, within.position_of(part.start), schema):
                rows = np.flatnonzero((fetched.offsets >= part.start) & (fetched.offsets < part.end))
                found.append(fetched.records.take(pa.array(rows)))
    return found


def _other_count(now: int, then: int) -> str:
    return f"it gives {now:,} records, and {then:,} are committed"


def _other_values(names: Sequence[str]) -> str | None:
    return f"other values of {', '.join(map(_shown, names))}" if names else None


def _committed(log: Log, state: LogState, topic: str, part: SeededPart, schema: pa.Schema) -> pa.Table:
    return _whole(_raw(log, state, topic, part, schema), schema)


def _given(topic: Topic, rows: Iterable[Incoming], schema: pa.Schema) -> dict[int, pa.Table]:
    """The rows of each partition that has some."""
    found: dict[int, list[pa.RecordBatch]] = {}
    for table, partitions in placed(topic, rows):
        for partition in np.unique(partitions).tolist():
            own = table.filter(pa.array(partitions == partition))
            found.setdefault(partition, []).extend(as_schema(batch, schema) for batch in own.to_batches())
    return {partition: _whole(batches, schema) for partition, batches in found.items()}


def _whole(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _shown(column: str) -> str:
    return column.removeprefix("value.").removeprefix("key.").removeprefix("_")


# Seeds: the records with which a topic begins, from a file or function of the project, in one commit with its hash.

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
    record = AppendRecord(_now(), written, source, ExternalTopic.from_topic(topic), again)
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
                f"{file_kind(mode)}, and no file",
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
    read = [content, _format(spec), spec.order, topic.timestamp, {"name": topic.name, **declaration_fields(topic)}]
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
