"""A log in memory whose positions have holes, as after compaction: what is true of it does not hang on counts.

As a plugin it is `type: sparse`. Logs of the same path are one log, as long as the process lasts.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headwater.plugins import hookimpl
from headwater.plugins.hookspecs import Register
from headwater.runtime.log.errors import (
    ColumnTypeError,
    CommitExistsError,
    CommitGapError,
    MissingColumnsError,
    RangeMissingError,
    SavedFileError,
)
from headwater.runtime.log.log import LogFile, SavedFile
from headwater.runtime.log.ranges import Columns, Fetched, LogRange, Rewritten
from headwater.runtime.log.segments.segment import Batch, FileRange, Segment, records_named, segment_path
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import HEADERS, as_schema, may_be_missing, unreadable
from headwater.runtime.records.types import ddl

PIECE = 7
"""Records that are read at once: so few that ranges have several pieces."""


@dataclass(frozen=True)
class Stored:
    """The records of a lane in a file, each at a place in the file's span of positions, and of offsets."""

    records: pa.Table
    places: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


@dataclass
class Content:
    """What a log has; of one path all instances have the same."""

    identity: str = ""
    commits: dict[str, dict[int, bytes]] = field(default_factory=dict)
    identities: dict[tuple[str, int], str] = field(default_factory=dict)
    snapshots: dict[str, dict[int, bytes]] = field(default_factory=dict)
    folded: dict[str, dict[int, int]] = field(default_factory=dict)
    files: dict[str, list[Stored]] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)
    saved: dict[str, bytes] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_LOGS: dict[str, Content] = {}


class SparseCommits:
    """A `CommitStore` in memory."""

    def __init__(self, application: str, content: Content) -> None:
        self.application = application
        self._content = content

    def path(self, number: int, *, snapshot: bool = False) -> str:
        return f"memory/{self.application}/{number}"

    def create(self, number: int, data: bytes) -> str:
        with self._content.lock:
            commits = self._content.commits.setdefault(self.application, {})
            if number in commits or number in self._folded():
                raise CommitExistsError(self.application, number)
            if number > 1 and number - 1 not in commits:
                raise CommitGapError(self.application, number)
            # Readers take no lock: what they find has its identity already, or it would count as lost.
            identity = self._content.identities.setdefault((self.application, number), uuid.uuid4().hex)
            commits[number] = data
            return identity

    def read(self, number: int) -> bytes | None:
        return self._commits().get(number)

    def identity(self, number: int) -> str | None:
        return self._content.identities.get((self.application, number))

    def checksum(self, number: int) -> int | None:
        data = self.read(number)
        return self._folded().get(number) if data is None else crc32(data)

    def first(self) -> int:
        return min(self._commits(), default=0)

    def latest(self) -> int:
        return max(self._commits(), default=0)

    def snapshots(self) -> list[int]:
        return sorted(self._snapshots(), reverse=True)

    def read_snapshot(self, number: int) -> bytes | None:
        return self._snapshots().get(number)

    def save_snapshot(self, number: int, data: bytes, identity: str) -> bool:
        with self._content.lock:
            if self.identity(number) != identity:
                return False
            self._content.snapshots.setdefault(self.application, {})[number] = data
            return True

    def fold(self, before: int, identity: str) -> None:
        with self._content.lock:
            if self.identity(before) != identity:
                return
            commits, snapshots = self._commits(), self._snapshots()
            folded = self._content.folded.setdefault(self.application, {})
            for number in sorted(number for number in commits if number < before):
                folded[number] = crc32(commits.pop(number))
                del self._content.identities[self.application, number]
            for number in [number for number in snapshots if number < before or number not in commits]:
                del snapshots[number]

    def _commits(self) -> dict[int, bytes]:
        return self._content.commits.get(self.application, {})

    def _snapshots(self) -> dict[int, bytes]:
        return self._content.snapshots.get(self.application, {})

    def _folded(self) -> dict[int, int]:
        return self._content.folded.get(self.application, {})


class SparseLog:
    """A `Log`. Before, between and behind the records of a file there are positions that nobody has."""

    def __init__(self, path: Any) -> None:
        self._content = _LOGS.setdefault(str(path), Content())

    def check(self) -> None:
        self._content.identity = self._content.identity or uuid.uuid4().hex

    def remove_leftovers(self) -> None:
        pass

    def identity(self) -> str:
        return self._content.identity

    def look_seconds(self) -> float:
        return 0.0

    def applications(self) -> list[str]:
        return sorted(name for name, commits in self._content.commits.items() if commits)

    def commits(self, application: str) -> SparseCommits:
        return SparseCommits(application, self._content)

    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Segment, ...]:
        if not table.num_rows:
            return ()
        path = segment_path(application, topic, name)
        if path in self._content.files:
            raise FileExistsError(path)
        whole = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
        of_row = np.broadcast_to(np.asarray(partitions), whole.num_rows)
        file, segments = list[Stored](), []
        for partition in np.unique(of_row).tolist():
            rows = whole.take(pa.array(np.flatnonzero(of_row == partition)))
            stored, span = _with_holes(rows, random.Random(f"{path} {partition}"))
            listed = Segment(topic, partition, lane, path, (_bounds(rows),), HEADERS in rows.schema.names, span=span)
            listed = _at(len(file), listed)
            file.append(stored)
            segments += [replace(listed, batches=(), span=2), listed]  # of the first one all records are gone
        self._content.files[path] = file
        return tuple(segments)

    def write_rewritten(
        self, application: str, topic: str, name: str, parts: Sequence[Rewritten]
    ) -> tuple[Segment, ...]:
        path = segment_path(application, topic, name)
        if path in self._content.files:
            raise FileExistsError(path)
        file, segments = list[Stored](), []
        for part in parts:
            listed = Segment(topic, part.partition, part.lane, "", (), base_position=part.start)
            span, offsets = part.end - part.start, part.end_offset - part.start_offset
            listed = replace(listed, base_offset=part.start_offset, span=span, offset_span=offsets)
            if len(part.positions):
                places = part.positions - part.start, part.offsets - part.start_offset
                headers = HEADERS in part.records.schema.names
                listed = replace(listed, path=path, batches=(_bounds(part.records),), headers=headers)
                listed = _at(len(file), listed)
                file.append(Stored(part.records, *places))
            segments.append(listed)
        if file:
            self._content.files[path] = file
        return tuple(segments)

    def ahead(self, ranges: object) -> Any:
        return self

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        found = FileRange.from_token(within.token)
        if found.path and found.path not in self._content.files:
            with records_named(within, within.start, within.end):
                raise RangeMissingError(found.path)
        if not found.batches:
            return
        stored = self._content.files[found.path][found.head]
        records, places = _selected(stored.records, columns, found.path), stored.places
        first = int(np.searchsorted(places, (within.start if start is None else start) - within.start))
        for at in range(first, len(places), PIECE):
            part = slice(at, at + PIECE)
            behind = int(places[at + PIECE]) + within.start if at + PIECE < len(places) else within.end
            piece = records.slice(at, PIECE).combine_chunks().to_batches()[0]
            yield Fetched(piece, places[part] + within.start, stored.offsets[part] + within.start_offset, behind)

    def files(self, application: str) -> Iterator[LogFile]:
        paths = sorted([*self._content.files, *self._content.saved])
        return iter(
            [
                LogFile(path, 0, len(self._content.saved.get(path, b"")))
                for path in paths
                if path.split("/")[1] == application
            ]
        )

    def remove(self, path: str) -> None:
        self._content.files.pop(path, None)
        self._content.saved.pop(path, None)

    def save_file(self, path: str, fill: Callable[[Path], None]) -> SavedFile:
        if path in self._content.saved:
            raise FileExistsError(path)
        with TemporaryDirectory() as folder:
            fill(Path(folder) / "file")
            data = (Path(folder) / "file").read_bytes()
        self._content.saved[path] = data
        return SavedFile(path, len(data), crc32(data))

    def read_file(self, path: str, start: int = 0) -> Iterator[memoryview]:
        data = self._content.saved.get(path)
        if data is None:
            raise SavedFileError(path, "it is not there")
        for at in range(start, len(data), 10_000):
            yield memoryview(data[at : at + 10_000])

    def drop(self, application: str) -> None:
        self._content.commits.pop(application, None)
        self._content.statuses.pop(application, None)
        self._content.snapshots.pop(application, None)
        self._content.folded.pop(application, None)
        for number in [key for key in self._content.identities if key[0] == application]:
            del self._content.identities[number]
        for file in self.files(application):
            self.remove(file.path)

    def write_status(self, application: str, status: str) -> None:
        self._content.statuses[application] = status

    def read_status(self, application: str) -> str | None:
        return self._content.statuses.get(application)

    def pause(self, application: str) -> None:
        self._content.pauses.setdefault(application, time.time_ns() // 1_000_000)

    def resume(self, application: str) -> None:
        self._content.pauses.pop(application, None)

    def paused_since(self, application: str) -> int | None:
        return self._content.pauses.get(application)

    def compact(self, application: str, topic: str, partitions: int, keys: Sequence[str]) -> int:
        """Drop what a later record of the same key replaces, tombstones stay; how many records that were."""
        state, dropped = LogState.load(self.commits(application)), 0
        for partition in range(partitions):
            seen: set[Any] = set()
            for within in reversed(state.ranges(topic, partition)):
                file = FileRange.from_token(within.token)
                if not within.records:
                    continue
                stored = self._content.files[file.path][file.head]
                key_of = stored.records.select(list(keys)).to_pylist()
                kept = []
                for row in reversed(range(len(key_of))):
                    key = repr(key_of[row])
                    if key not in seen:
                        kept.append(row)
                        seen.add(key)
                rows = np.array(kept[::-1], np.int64)
                dropped += len(key_of) - len(rows)
                left = Stored(stored.records.take(pa.array(rows)), stored.places[rows], stored.offsets[rows])
                self._content.files[file.path][file.head] = left
        return dropped


def _with_holes(records: pa.Table, chances: random.Random) -> tuple[Stored, int]:
    steps = [1 + chances.choice([0, 0, 0, 1, 4]) for _ in range(records.num_rows)]
    places = np.cumsum(steps) - 1
    return Stored(records, places, places), int(places[-1]) + 1 + chances.choice([0, 3])


def _at(number: int, segment: Segment) -> Segment:
    """A segment that is the file's next one: its token says so in place of the bytes where a file begins."""
    return replace(segment, head=number)


def _bounds(records: pa.Table) -> Batch:
    """As a commit lists them; where the bytes are does not matter here."""
    times = records["_timestamp"].to_numpy()
    orders = records["_order"].to_numpy() if "_order" in records.schema.names else times
    return Batch(
        0, records.nbytes, records.num_rows, int(times.min()), int(times.max()), int(orders.min()), int(orders.max())
    )


def _selected(records: pa.Table, columns: Columns, path: str) -> pa.Table:
    if columns is None:
        return records
    if isinstance(columns, pa.Schema):
        missing = [name for name in columns.names if name not in records.schema.names and not may_be_missing(name)]
        if missing:
            raise MissingColumnsError(path, missing)
        for name, stored, wanted in unreadable(records.schema, columns):
            raise ColumnTypeError(path, name, ddl(stored), ddl(wanted))
        return pa.Table.from_batches([as_schema(each, columns) for each in records.to_batches()], columns)
    missing = [name for name in columns if name not in records.schema.names and name != HEADERS]
    if missing:
        raise MissingColumnsError(path, missing)
    if HEADERS in columns and HEADERS not in records.schema.names:
        records = records.append_column(HEADERS, pa.nulls(records.num_rows, pa.string()))
    return records.select(list(columns))


@hookimpl
def headwater_register_logs(register: Register) -> None:
    """Register `sparse`."""
    register("sparse", SparseLog, {"type": "object", "properties": {"path": {"type": "string"}}})
