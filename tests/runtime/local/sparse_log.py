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
    CommitExistsError,
    CommitGapError,
    MissingColumnsError,
    RangeMissingError,
    SavedFileError,
)
from headwater.runtime.log.log import LogFile, SavedFile
from headwater.runtime.log.ranges import Fetched, LogRange
from headwater.runtime.log.segments.segment import Batch, FileRange, Segment, segment_path
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import HEADERS

PIECE = 7
"""Records that are read at once: so few that ranges have several pieces."""


@dataclass(frozen=True)
class Stored:
    """The records of a partition in a file, each at a place in the file's span."""

    records: pa.Table
    places: npt.NDArray[np.int64]


@dataclass
class Content:
    """What a log has; of one path all instances have the same."""

    identity: str = ""
    commits: dict[str, dict[int, bytes]] = field(default_factory=dict)
    identities: dict[tuple[str, int], str] = field(default_factory=dict)
    snapshots: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    files: dict[str, dict[int, Stored]] = field(default_factory=dict)
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

    def create(self, number: int, data: bytes) -> str:
        with self._content.lock:
            commits = self._content.commits.setdefault(self.application, {})
            if number in commits:
                raise CommitExistsError(self.application, number)
            if number != len(commits) + 1:
                raise CommitGapError(self.application, number)
            commits[number] = data
            return self._content.identities.setdefault((self.application, number), uuid.uuid4().hex)

    def read(self, number: int) -> bytes | None:
        return self._commits().get(number)

    def identity(self, number: int) -> str | None:
        return self._content.identities.get((self.application, number))

    def latest(self) -> int:
        return len(self._commits())

    def save_snapshot(self, number: int, data: bytes) -> None:
        self._content.snapshots[self.application] = (number, data)

    def load_snapshot(self) -> tuple[int, bytes] | None:
        return self._content.snapshots.get(self.application)

    def _commits(self) -> dict[int, bytes]:
        return self._content.commits.get(self.application, {})


class SparseLog:
    """A `Log`. Before, between and behind the records of a file there are positions that nobody has."""

    def __init__(self, path: Any) -> None:
        self._content = _LOGS.setdefault(str(path), Content())

    def check(self) -> None:
        self._content.identity = self._content.identity or uuid.uuid4().hex

    def identity(self) -> str:
        return self._content.identity

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
        file, segments = {}, []
        for partition in np.unique(of_row).tolist():
            rows = whole.take(pa.array(np.flatnonzero(of_row == partition)))
            stored, span = _with_holes(rows, random.Random(f"{path} {partition}"))
            file[partition] = stored
            listed = Segment(topic, partition, lane, path, (_bounds(rows),), HEADERS in rows.schema.names, span=span)
            segments += [replace(listed, batches=(), span=2), listed]  # of the first one all records are gone
        self._content.files[path] = file
        return tuple(segments)

    def read(
        self, within: LogRange, start: int | None = None, columns: Sequence[str] | None = None
    ) -> Iterator[Fetched]:
        found = FileRange.of(within.token)
        if found.path not in self._content.files:
            raise RangeMissingError(found.path)
        stored = self._content.files[found.path].get(within.partition)
        if stored is None or not found.batches:
            return
        records, places = _selected(stored.records, columns, found.path), stored.places
        first = int(np.searchsorted(places, (within.start if start is None else start) - within.start))
        for at in range(first, len(places), PIECE):
            part = slice(at, at + PIECE)
            behind = int(places[at + PIECE]) + within.start if at + PIECE < len(places) else within.end
            piece = records.slice(at, PIECE).combine_chunks().to_batches()[0]
            yield Fetched(piece, places[part] + within.start, places[part] + within.start_offset, behind)

    def files(self, application: str) -> Iterator[LogFile]:
        paths = sorted([*self._content.files, *self._content.saved])
        return iter([LogFile(path, 0) for path in paths if path.split("/")[1] == application])

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
                path = FileRange.of(within.token).path
                stored = self._content.files[path].get(partition)
                if stored is None or not within.records:
                    continue
                key_of = stored.records.select(list(keys)).to_pylist()
                kept = []
                for row in reversed(range(len(key_of))):
                    key = repr(key_of[row])
                    if key not in seen:
                        kept.append(row)
                        seen.add(key)
                rows = np.array(kept[::-1], np.int64)
                dropped += len(key_of) - len(rows)
                self._content.files[path][partition] = Stored(stored.records.take(pa.array(rows)), stored.places[rows])
        return dropped


def _with_holes(records: pa.Table, chances: random.Random) -> tuple[Stored, int]:
    steps = [1 + chances.choice([0, 0, 0, 1, 4]) for _ in range(records.num_rows)]
    places = np.cumsum(steps) - 1
    return Stored(records, places), int(places[-1]) + 1 + chances.choice([0, 3])


def _bounds(records: pa.Table) -> Batch:
    """As a commit lists them; where the bytes are does not matter here."""
    times = records["_timestamp"].to_numpy()
    orders = records["_order"].to_numpy() if "_order" in records.schema.names else times
    return Batch(
        0, records.nbytes, records.num_rows, int(times.min()), int(times.max()), int(orders.min()), int(orders.max())
    )


def _selected(records: pa.Table, columns: Sequence[str] | None, path: str) -> pa.Table:
    if columns is None:
        return records
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
