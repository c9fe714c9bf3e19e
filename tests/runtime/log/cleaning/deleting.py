"""A store whose rows come and go, its real changelog and real copies of it, cleaned by a clock that the test sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from headwater.runtime.ir.topology import Store, Subtopology, Topology
from headwater.runtime.log.cleaning.cleaner import Cleaner, clean_round
from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.cleaning.deletions import policies_of
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import SnapshotRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.log import Listed, epoch_file_name
from headwater.runtime.log.segments.segment import Segment
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.committer import Committer
from headwater.runtime.progress.planner import Planner
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.keys import decode_keys, encode_keys
from headwater.runtime.records.schema import CHANGELOG, changelog_topic
from headwater.runtime.restore.client_stores import handle
from headwater.runtime.restore.copies import Snapshots
from headwater.runtime.restore.requests import StateLocation, StateRequest, StoreResponse, StoreTarget, What
from headwater.runtime.state.codec import RowCodec
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.task_id import StoreId, TaskKey

APPLICATION = "p-t"
INCARNATION = "cafecafe" * 4
STORE = Store("rows", 1, "k bigint", "v bigint")
TOPIC = changelog_topic(APPLICATION, STORE.name)
LANE = (TOPIC, 0, 0)
KEPT_MS = 100
ACTIVE = "active"

Changes = Sequence[tuple[int, int | None]]
"""Keys with their new values; None deletes."""


@dataclass
class Copy:
    """A client's copy of the store. `position`: as the driver knows it. `wiped`: how often it has begun again."""

    location: StateLocation
    position: int = 0
    wiped: int = 0
    held: StoreTarget | None = None


class Shop:
    """One task with one store. Its active copy is brought forward by epochs, as `applied` says; others by restores."""

    def __init__(self, root: Path, limits: Limits, kept_ms: int = KEPT_MS) -> None:
        self.root = root
        self.log = EmbeddedLog(root / "log")
        self.log.check()
        part = Subtopology(0, "s", 1, lambda rows, _: rows, (), (), (STORE,))
        self.topology = Topology("p", "t", "1", "hash", (part,))
        self.rows: dict[int, int] = {}
        self.now = 1_000
        self.epochs = 0
        self.copies: dict[str, Copy] = {}
        self.load()
        self.committer.claim(TopologyDescription(incarnation=INCARNATION))
        policies = policies_of(self.topology, kept_ms)
        self.cleaner = Cleaner(self.log, policies, limits, [self.topology], now=lambda: self.now)
        self.copy(ACTIVE)

    def load(self) -> None:
        """Begin again with what is in the log."""
        self.state = LogState.load(self.log.commits(APPLICATION))
        self.planner = Planner(Committed(self.log, self.topology, self.state), 10**9)
        self.committer = Committer(self.state)
        self.committer.generation = self.state.generation

    @property
    def end(self) -> int:
        return self.planner.end(StoreId(STORE.name, 0))

    @property
    def horizon(self) -> int:
        return self.state.horizon(*LANE)

    @property
    def segments(self) -> list[Segment]:
        return [each for each in self.state.segments() if each.topic == TOPIC]

    @property
    def records(self) -> int:
        """How many the changelog has."""
        return sum(each.rows for each in self.segments)

    def log_file(self, path: str) -> Path:
        return self.root / "log" / path

    def copy(self, name: str) -> Copy:
        """A client's copy; a new one is empty."""
        if name not in self.copies:
            location = StateLocation(
                str(self.root / "state"),
                APPLICATION,
                name,
                incarnation=INCARNATION,
                log=("embedded", {"path": str(self.root / "log")}),
                stores=(STORE,),
                log_identity=self.log.identity(),
            )
            owner = Owner.from_pid(os.getpid())
            assert owner is not None
            ProcessFile.take(StateDirectory(self.root / "state", name, APPLICATION).path, owner)
            held = handle(StateRequest("claim", location))
            assert held.failure is None
            self.copies[name] = Copy(replace(location, process_id=held.process_id))
        return self.copies[name]

    def epoch(self, *changes: tuple[int, int | None]) -> None:
        """The active copy is brought to the end, and changes are written."""
        active = self.copy(ACTIVE)
        self.bring(active)
        assert (active.wiped, active.position) == (0, self.end)
        applied = active.position
        self.epochs += 1
        segments: tuple[Listed, ...] = ()
        if changes:
            name = epoch_file_name(INCARNATION, self.state.generation, self.epochs, TaskKey(APPLICATION, "s", 0), 0)
            segments = self.log.write(APPLICATION, TOPIC, name, encoded(changes), 0, 0)
        commit = TaskCommit("s", 0, {"in": {0: self.epochs}}, 0, segments=segments, applied={STORE.name: applied})
        self.committer.commit(self.epochs, [commit])
        for key, value in changes:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def clean(self, after: int = 0) -> None:
        """A round, so many ms later."""
        self.now += after
        before = self.horizon
        clean_round(self.cleaner, self.log, self.state)
        assert before <= self.horizon <= self.copy(ACTIVE).position

    def plan(self, copy: Copy, records: int | None = None) -> StoreTarget:
        """What brings a copy nearer to the end, by so many positions."""
        planned = self.planner.store(STORE, 0, copy.position, {}, records)
        if records is not None:
            planned = replace(planned, position=min(planned.position, copy.position + records))
        return StoreTarget(0, planned, subtopology="s")

    def ask(self, what: What, copy: Copy, target: StoreTarget) -> StoreResponse:
        """Have a client do something, and note where its copy stands."""
        found = handle(StateRequest(what, copy.location, (target,)))
        assert found.failure is None
        (of_store,) = found.stores
        assert (of_store.damage, of_store.lost) == ("", False)
        copy.position = of_store.position
        copy.wiped += bool(of_store.outdated)
        return of_store

    def bring(self, copy: Copy) -> None:
        """Bring a copy to the end."""
        while copy.position < self.end:
            assert self.ask("restore", copy, self.plan(copy)).failure is None

    def save(self, copy: Copy) -> None:
        """Have a copy saved in the log, as it stands."""
        path = self._snapshots.new_path(StoreId(STORE.name, 0))
        at = copy.position
        target = StoreTarget(0, replace(self.plan(copy).input, position=at, ranges=()), save_to=path, subtopology="s")
        saved = self.ask("save", copy, target).saved
        assert saved is not None
        self.state.commit(SnapshotRecord(self.state.generation, self.now, (saved,), (), INCARNATION))

    def take(self, copy: Copy) -> None:
        """Put the furthest usable snapshot in the place of a copy that is behind it."""
        for snapshot in self._snapshots.usable(StoreId(STORE.name, 0))[:1]:
            if copy.position < snapshot.position <= self.end:
                planned = replace(self.plan(copy).input, position=snapshot.position, ranges=())
                self.ask("restore", copy, StoreTarget(0, planned, load=snapshot, subtopology="s"))
                assert copy.position == snapshot.position

    def rows_of(self, copy: Copy) -> dict[int, int]:
        """What a copy holds."""
        path = StateDirectory(self.root / "state", copy.location.folder, APPLICATION).store_path(StoreId("rows", 0))
        return dict(decoded(list(LmdbBackend().open(path).range(None, None))))

    def queried(self) -> dict[int, int]:
        """What a query finds, which takes the furthest of all copies, and the changelog."""
        query = StoreQuery(APPLICATION, "s", STORE, self.log, self.root / "state", LmdbBackend().open_to_read)
        return {row.key["k"]: row.value["v"] for row in query.rows()}

    @property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self.state)


def encoded(changes: Changes) -> pa.Table:
    """As an epoch writes them."""
    keys = encode_keys([pa.array([key for key, _ in changes], pa.int64())])
    values = [value for _, value in changes]
    found = RowCodec({"v": pa.int64()}).encode([pa.array(values, pa.int64())], np.zeros(len(values), np.int64))
    held = [None if value is None else row for value, row in zip(values, found, strict=True)]
    return pa.table([keys, pa.array(held, pa.binary()), [0] * len(values)], schema=CHANGELOG)


def decoded(rows: Sequence[tuple[bytes, bytes]]) -> list[tuple[int, int]]:
    """Keys and values of a store."""
    (keys,) = decode_keys(pa.array([key for key, _ in rows], pa.binary()), [pa.int64()])
    (values,), _ = RowCodec({"v": pa.int64()}).decode([value for _, value in rows])
    return list(zip(keys.to_pylist(), values.to_pylist(), strict=True))
