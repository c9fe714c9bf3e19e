"""Seeds, and how they differ from committed records."""

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
from ..log.state import LogState, committed_records
from ..records.arrays import pieces_in_order, to_numpy
from ..records.keys import encode_keys
from ..records.schema import as_schema, key_columns, topic_schema
from ..timed_parts import wall_ms
from .append import WRITE_BYTES, Appended, check_appended, commit_append, with_partitions, write_incoming
from .incoming import Incoming, join
from .record_form import RefusedRows, Sieve
from .repartition import in_order, rekeyed, went_in_turns
from .seed_rows import (
    csv_rows,
    jsonl_rows,
    parquet_rows,
    project_function,
    raising_seed_errors,
    record_rows,
    yielded_rows,
)

# Results about the files of seeds, cached so that a command reads no file twice for the same question.

_Mark = tuple[int, ...]

_SETTLED_NS = 2_000_000_000
"""A file that has changed more recently is read again: clocks of file systems are coarse, so it may change again with
the same times.
"""


class SeedFiles:
    """Caches answers about a file as long as it is the same file, with the same size and times."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Path, _Mark, str], str] = {}

    def once(self, path: Path, question: str, answer: Callable[[], str]) -> str:
        """The result of `answer`, which is called once for each state of the file. Raises what `answer` raises."""
        before = _mark(path)
        if before is not None and (path, before, question) in self._answers:
            return self._answers[path, before, question]
        result = answer()
        if before is not None and before == _mark(path):
            self._answers[path, before, question] = result
        return result


def _mark(path: Path) -> _Mark | None:
    """Identifies the state of a file; None if the next state may look the same, or there is no file."""
    now = time.time_ns()
    try:
        status = path.stat()
    except OSError:
        return None
    if now - status.st_mtime_ns < _SETTLED_NS:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


# Differences between a seed's present rows and its committed records.


def seed_difference(log: Log, state: LogState, topic: Topic, rows: Iterable[Incoming]) -> str | None:
    """The difference in words; None if the records are the same, with the topic's present columns.

    Both are kept in memory. Raises SeedError, and errors of the log.
    """
    parts = state.seeds[topic.name].parts
    if parts is None:
        return "its former records are unknown, because an earlier version has written them"
    schema = topic_schema(topic, headers=True)
    recorded = state.topics.get(topic.name)
    if recorded is not None and (recorded.moved or recorded.can_move_to(topic)):
        return _difference_by_key(log, state, topic, parts, rows, schema)
    then = [_committed(log, state, topic.name, part, schema) for part in parts]
    now = _given(topic, rows, schema)
    counts = [sum(table.num_rows for table in tables) for tables in (then, now.values())]
    if counts[0] != counts[1]:
        return _other_count(counts[1], counts[0])
    committed = {part.partition: table for part, table in zip(parts, then, strict=True) if table.num_rows}
    if {part: len(table) for part, table in committed.items()} != {part: len(table) for part, table in now.items()}:
        return "its records go to other partitions"
    return _other_values(
        [name for name in schema.names if any(not committed[part][name].equals(now[part][name]) for part in now)]
    )


def _difference_by_key(
    log: Log, state: LogState, topic: Topic, parts: Sequence[SeededPart], rows: Iterable[Incoming], schema: pa.Schema
) -> str | None:
    """The same for records that are not where the seed has put them. Records of a key have kept their order."""
    by_time = bool(state.topics[topic.name].key) or not went_in_turns([part.end - part.start for part in parts])
    other_key = state.topics[topic.name].key != topic.key
    pieces = in_order([iter(_raw(log, state, topic.name, part)) for part in parts], by_time=by_time)
    records = (rekeyed(topic, piece) if other_key else piece for piece in pieces)
    then = _by_key(topic, _whole([as_schema(batch, schema) for batch in records], schema))
    given = [as_schema(batch, schema) for table, _ in with_partitions(topic, rows) for batch in table.to_batches()]
    now = _by_key(topic, _whole(given, schema))
    if then.num_rows != now.num_rows:
        return _other_count(now.num_rows, then.num_rows)
    return _other_values([name for name in schema.names if not then[name].equals(now[name])])


def _by_key(topic: Topic, records: pa.Table) -> pa.Table:
    """Records sorted by key. Records of a key keep their order; those without a key are sorted by time."""
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
    found = committed_records(log, state, topic, part.partition, part.start, part.end, schema)
    return [records for _, records in found]


def _other_count(now: int, then: int) -> str:
    return f"it gives {now:,} records, and {then:,} are committed"


def _other_values(names: Sequence[str]) -> str | None:
    return f"other values of {', '.join(map(_column_name, names))}" if names else None


def _committed(log: Log, state: LogState, topic: str, part: SeededPart, schema: pa.Schema) -> pa.Table:
    return _whole(_raw(log, state, topic, part, schema), schema)


def _given(topic: Topic, rows: Iterable[Incoming], schema: pa.Schema) -> dict[int, pa.Table]:
    """The rows of each partition that has some."""
    batches_of: dict[int, list[pa.RecordBatch]] = {}
    for table, partitions in with_partitions(topic, rows):
        for partition in np.unique(partitions).tolist():
            own = table.filter(pa.array(partitions == partition))
            batches_of.setdefault(partition, []).extend(as_schema(batch, schema) for batch in own.to_batches())
    return {partition: _whole(batches, schema) for partition, batches in batches_of.items()}


def _whole(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema).combine_chunks()


def _column_name(column: str) -> str:
    return column.removeprefix("value.").removeprefix("key.").removeprefix("_")


# Seeds: a topic's first records, from a file or function of the project, in one commit with its hash.

Format = Literal["csv", "jsonl", "parquet", "records"]

CLOCK = 0
"""The timestamp of a seed's records if no other is given. They precede all others."""

_READERS: dict[str, Callable[[Path, Topic, int, Sieve], Iterator[Incoming]]] = {
    "csv": csv_rows,
    "jsonl": jsonl_rows,
    "parquet": parquet_rows,
    "records": record_rows,
}


@dataclass(frozen=True)
class SeedSpec:
    """A topic's `seed:`. Either `path`, relative to the project, or `function`, as `functions.module:name`.

    `format`: of the file; None: by its suffix. `order`: `time` sorts by timestamp, `file` does not. Records in record
    form are never sorted.
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
    """The result of seeding a topic. `commit`: the commit with its records. `records`: the number of seed records that
    were committed now; `appended`: the number of appended records that were put behind them again. `refused`: skipped
    rows, which the topic cannot hold.
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

    `full_refresh`: start the topic again with the seed, followed by appended records unless `drop_appended`; with
    `keep_unchanged` only if the seed or the topic's declaration has changed. `files`: cached results about them. Raises
    SeedError, SeedChangedError, TopicChangedError, AppendedUnknownError, AppendedOtherwiseError.
    """
    state = LogState.load(log.commits(application))
    committed = state.seeds.get(topic.name)
    again = full_refresh and topic.name in state.topics
    sieve = Sieve(topic)
    with _opened(topic, spec, project_dir, sieve, files) as (content, rows):
        source = SeedSource(topic.name, _digest(topic, spec, content), spec.source)
        if committed is not None and committed.hash == source.hash and (keep_unchanged or not full_refresh):
            return SeedResult(topic.name, "unchanged", 0, 0)
        rows = _ordered(topic, spec, rows)
        if committed is not None and not full_refresh:
            if not _awaits_repartitioning(state, topic):
                check_readable(state, topic)
            return replace(_same_records(log, state, topic, source, rows), refused=sieve.refused)
        if again and not drop_appended:
            check_appended(state, topic)
        written = write_incoming(log, application, topic, rows)
    record = AppendRecord(wall_ms(), written, source, ExternalTopic.from_topic(topic), again)
    kept = None if drop_appended else Appended(log, application, topic).rewrite
    try:
        result = commit_append(state, topic, record, kept if again else None)
    except SeededMeanwhileError:
        return seed(log, application, topic, spec, project_dir, full_refresh, keep_unchanged, drop_appended, files)
    collect_garbage(log, application, state)
    new = sum(segment.rows for segment in written)
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
    """Whether `seed` with a full refresh would write the seed of a topic. If so, its file is read to check it.

    `files`: cached results about them. No function is called. Raises SeedError, AppendedUnknownError,
    AppendedOtherwiseError.
    """
    committed = state.seeds.get(topic.name)
    with _opened(topic, spec, project_dir, Sieve(topic), files) as (content, rows):
        digest = _digest(topic, spec, content)
        if keep_unchanged and committed is not None and committed.hash == digest:
            return False
        if topic.name in state.topics and not drop_appended:
            check_appended(state, topic)
        if spec.path is not None:
            files.once(project_dir / spec.path, f"rows of {digest}", lambda: str(sum(map(len, rows))))
    return True


def _same_records(log: Log, state: LogState, topic: Topic, source: SeedSource, rows: Iterable[Incoming]) -> SeedResult:
    """Note another source of the same records, with the present columns. Raises SeedChangedError if they differ."""
    committed = state.seeds[topic.name]
    if difference := seed_difference(log, state, topic, rows):
        raise SeedChangedError(topic.name, source.path, difference)
    if _awaits_repartitioning(state, topic):  # the next run moves its records, and notes the seed then
        return SeedResult(topic.name, "unchanged", 0, 0)
    commit_append(state, topic, AppendRecord(wall_ms(), (), replace(source, parts=committed.parts)))
    return SeedResult(topic.name, "unchanged", 0, 0)


def _awaits_repartitioning(state: LogState, topic: Topic) -> bool:
    """Whether a run will repartition the topic."""
    declared_now = state.topics.get(topic.name)
    return declared_now is not None and declared_now.can_move_to(topic)


def other_records(log: Log, state: LogState, topic: Topic, spec: SeedSpec, project_dir: Path) -> str | None:
    """How a file's records differ from those of its committed seed, in words; None if they are the same.

    Raises SeedError, and errors of the log.
    """
    with _opened(topic, spec, project_dir, Sieve(topic)) as (_, rows):
        return seed_difference(log, state, topic, _ordered(topic, spec, rows))


def seed_rows(topic: Topic, spec: SeedSpec, project_dir: Path) -> list[Incoming]:
    """The records of a seed, in the order in which they are committed. Raises SeedError."""
    with _opened(topic, spec, project_dir, Sieve(topic)) as (_, rows):
        return list(_ordered(topic, spec, rows))


def seed_digest(topic: Topic, spec: SeedSpec, project_dir: Path, files: SeedFiles | None = None) -> str:
    """A hash of everything that determines what a seed commits. Raises SeedError."""
    with _opened(topic, spec, project_dir, Sieve(topic), files) as (content, _):
        return _digest(topic, spec, content)


@contextmanager
def _opened(
    topic: Topic, spec: SeedSpec, project_dir: Path, sieve: Sieve, files: SeedFiles | None = None
) -> Iterator[tuple[str, Iterator[Incoming]]]:
    """A hash of the seed's content, and its rows, which are read on demand."""
    if spec.function is not None:
        with project_function(project_dir, spec.function) as (function, content):
            yield content, sieve.to_the_end(_function_rows(spec.function, project_dir, function, topic, sieve))
    else:
        path = project_dir / spec.source
        content = (files or SeedFiles()).once(path, "hash", lambda: _file_hash(path, spec.source))
        yield content, sieve.to_the_end(_READERS[_format(spec)](path, topic, CLOCK, sieve))


def _function_rows(
    source: str, project_dir: Path, function: Callable[[], object], topic: Topic, sieve: Sieve
) -> Iterator[Incoming]:
    with raising_seed_errors(source, project_dir):
        result = function()
    if isinstance(result, Iterator):
        result = _yielded(source, project_dir, result)
    yield from yielded_rows(source, result, topic, CLOCK, sieve)


def _yielded(source: str, project_dir: Path, generator: Iterator[object]) -> Iterator[object]:
    """The values that a generator of the project yields."""
    end = object()
    while True:
        with raising_seed_errors(source, project_dir):
            value = next(generator, end)
        if value is end:
            return
        yield value


def _format(spec: SeedSpec) -> str:
    if spec.function is not None:
        return "function"
    format_ = spec.format or Path(spec.source).suffix.removeprefix(".")
    if format_ not in _READERS:
        raise SeedError(spec.source, f"of an unknown format; declare it with `format:` ({', '.join(_READERS)})")
    return format_


def _file_hash(path: Path, name: str) -> str:
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # opening a pipe waits, and it can be read only once
            raise SeedError(
                name,
                f"{file_kind(mode)}, and no file",
                hint="a seed is read several times: write its content to a file, or append it with "
                "`headwater seed TOPIC --append --file`",
            )
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise SeedError(name, f"there is no file {path}") from error
    except OSError as error:
        raise SeedError(name, error.strerror or str(error)) from error


def _digest(topic: Topic, spec: SeedSpec, content: str) -> str:
    """A hash of everything that determines what is committed: the content, how it is read, and into which columns."""
    read = [content, _format(spec), spec.order, topic.timestamp, {"name": topic.name, **declaration_fields(topic)}]
    return hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()


def _ordered(topic: Topic, spec: SeedSpec, rows: Iterator[Incoming]) -> Iterator[Incoming]:
    return rows if spec.order == "file" or _format(spec) == "records" else by_time(topic, rows)


def by_time(topic: Topic, rows: Iterator[Incoming]) -> Iterator[Incoming]:
    """The rows sorted by timestamp, stable, in pieces of about WRITE_BYTES.

    All rows are kept in memory, unless they have the same timestamp.
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
