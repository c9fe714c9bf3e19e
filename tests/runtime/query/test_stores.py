"""Reading a store beside its owner: what is committed is what is seen, however far the copy on disk is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.keyed.stored_rows import stored_columns
from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import Agg, GlobalTable, Store, Topic
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import EpochRecord, GenerationRecord, TaskCommit
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.query.rows import GlobalQuery, StoreKeyError, to_timestamps
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.records.keys import encode_keys
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.records.window_keys import window_keys
from headwater.runtime.state.catch_up import catch_up
from headwater.runtime.state.codec import RowCodec
from headwater.runtime.state.directory import StateDirectory
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.task_id import StoreId
from headwater.runtime.tasks.plan import StoreInput

APPLICATION = "shop-sales"
NAMES = Store("names", 1, "code string", "name string, size int")
TOTALS = Store(
    "totals",
    1,
    "product string",
    "orders bigint, big bigint",
    type="window",
    window=Window(100, 100, 0),
    aggregates=(Agg("orders", "count"),),
)

Change = tuple[bytes, bytes | None]


@dataclass
class Shop:
    """An application that commits changes of one store, and may apply some of them."""

    root: Path
    store: Store

    def __post_init__(self) -> None:
        self.log = EmbeddedLog(self.root / "log")
        self.state = LogState.load(self.log.commits(APPLICATION))
        self.state.commit(GenerationRecord(1, 0))

    def commit(self, *changes: Change, clock: int = -1) -> None:
        topic = f"{APPLICATION}-{self.store.name}-changelog"
        keys, values = zip(*changes, strict=True)
        table = pa.table([list(keys), list(values), [0] * len(keys)], schema=CHANGELOG)
        segments = self.log.write(APPLICATION, topic, f"{self.state.number}", table, 0, 0)
        task = TaskCommit("sales", 0, {}, 0, {self.store.name: clock}, segments)
        self.state.commit(EpochRecord(1, self.state.number, 0, (task,)))

    def apply(self, position: int, client: str = "0") -> None:
        topic = f"{APPLICATION}-{self.store.name}-changelog"
        place = StateDirectory(self.root / "state", client, APPLICATION).store_path(StoreId(self.store.name, 0))
        ranges = self.state.lane_ranges(topic, 0, 0)
        catch_up(LmdbBackend().open(place), StoreInput(self.store.name, 0, position, ranges), self.log)

    def made_of(self, incarnation: str, client: str = "0") -> None:
        """Say of which incarnation a client's stores are."""
        directory = StateDirectory(self.root / "state", client, APPLICATION).path
        owner = Owner.from_pid(os.getpid())
        assert owner is not None
        replace(ProcessFile.take(directory, owner), incarnation=incarnation).write(directory)

    def query(self, **bounds: Any) -> list[tuple[Mapping[str, Any], Mapping[str, Any], int]]:
        query = StoreQuery(APPLICATION, "sales", self.store, self.log, self.root / "state", LmdbBackend().open)
        return [(row.key, row.value, row.timestamp) for row in query.rows(**bounds)]


def named(code: str, name: str | None, size: int = 1) -> Change:
    (key,) = encode_keys([pa.array([code])]).to_pylist()
    codec = RowCodec(stored_columns(NAMES))
    (value,) = codec.encode([pa.array([name]), pa.array([size], pa.int32())], pa.array([7]).to_numpy())
    return key, None if name is None else value


def total(start: int, product: str, orders: int) -> Change:
    key = encode_keys([pa.array([product])])
    (encoded,) = window_keys(pa.array([start]).to_numpy(), key).to_pylist()
    columns = stored_columns(TOTALS)
    values = [pa.array([orders], kind) for kind in columns.values()]
    (value,) = RowCodec(columns).encode(values, pa.array([start + 5]).to_numpy())
    return encoded, value


@pytest.fixture
def names(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, NAMES)
    shop.commit(named("b", "Bee"), named("a", "Ay"))
    shop.commit(named("a", "Aye", 2), named("c", "Sea"), named("b", None))
    return shop


EXPECTED: Sequence[Any] = [
    ({"code": "a"}, {"name": "Aye", "size": 2}, 7),
    ({"code": "c"}, {"name": "Sea", "size": 1}, 7),
]


def test_copy_that_was_made_before_the_application_was_fully_refreshed_is_passed_over(names: Shop) -> None:
    before = Shop(names.root / "before", NAMES)
    before.commit(named("z", "Before"))
    before.apply(1)
    shutil.copytree(before.root / "state", names.root / "state")
    names.made_of("before")
    names.state.commit(GenerationRecord(2, 0, TopologyDescription(incarnation="after")))
    assert names.query() == EXPECTED
    names.made_of("after")
    assert names.query() != EXPECTED


def test_store_without_a_copy_is_read_from_its_changelog(names: Shop) -> None:
    assert names.query() == EXPECTED


@pytest.mark.parametrize("position", range(6))
def test_copy_at_any_position_gives_the_committed_rows(names: Shop, position: int) -> None:
    names.apply(position)

    assert names.query() == EXPECTED


def test_of_several_copies_any_gives_the_committed_rows(names: Shop) -> None:
    names.apply(1, client="0")
    names.apply(4, client="1")

    assert names.query() == EXPECTED


def test_copy_that_is_ahead_of_all_commits_is_passed_over(names: Shop) -> None:
    names.apply(5)
    shutil.rmtree(names.root / "log")
    refreshed = Shop(names.root, NAMES)
    refreshed.commit(named("d", "Dee"))

    assert refreshed.query() == [({"code": "d"}, {"name": "Dee", "size": 1}, 7)]


def test_key_given_as_text_selects_its_row(names: Shop) -> None:
    assert names.query(key={"code": "c"}) == EXPECTED[1:]
    assert names.query(key={"code": "z"}) == []


def test_key_column_that_is_not_there_is_wrong_use(names: Shop) -> None:
    with pytest.raises(StoreKeyError) as raised:
        names.query(key={"cod": "c"})

    assert (raised.value.column, raised.value.exit_code) == ("cod", 2)


def test_application_that_never_ran_has_no_rows(tmp_path: Path) -> None:
    assert Shop(tmp_path, NAMES).query() == []


@pytest.fixture
def totals(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path, TOTALS)
    shop.commit(total(-100, "tea", 1), total(0, "tea", 2), total(100, "mug", 3), total(200, "tea", 4))
    return shop


def windows(rows: list[tuple[Mapping[str, Any], Mapping[str, Any], int]]) -> list[int]:
    return [key["window_start"] for key, _, _ in rows]


def test_window_store_gives_bounds_and_results_of_aggregates(totals: Shop) -> None:
    first = totals.query(start=0)[0]

    assert first == ({"product": "tea", "window_start": 0, "window_end": 100}, {"orders": 2, "big": 2}, 5)


def test_table_of_a_window_store_has_typed_columns(totals: Shop) -> None:
    totals.apply(2)
    query = StoreQuery(APPLICATION, "sales", TOTALS, totals.log, totals.root / "state", LmdbBackend().open)
    utc = pa.timestamp("us", "UTC")

    found = query.to_table(key={"product": "tea"}, start=0)

    types = [pa.string(), utc, utc, pa.int64(), pa.int64(), utc]
    assert found.schema.types == types
    assert found.schema.names == ["product", "window_start", "window_end", "orders", "big", "timestamp"]
    assert found["orders"].to_pylist() == [2, 4]
    assert found["window_end"].cast(pa.int64()).to_pylist() == [100_000, 300_000]
    assert query.to_table(key={"product": "none"}).equals(found.slice(0, 0))


@pytest.mark.parametrize("position", [0, 2, 4])
def test_bounds_select_windows_by_their_start(totals: Shop, position: int) -> None:
    totals.apply(position)

    assert windows(totals.query()) == [-100, 0, 100, 200]
    assert windows(totals.query(start=0, end=200)) == [0, 100]
    assert windows(totals.query(start=1, key={"product": "tea"})) == [200]


def test_key_value_store_of_windowed_keys_gives_their_bounds_as_any_column(tmp_path: Path) -> None:
    counted = Store("counted", 1, "product string, window_start timestamp, window_end timestamp", "n bigint")
    shop = Shop(tmp_path, counted)
    products, start, end = (
        pa.array(["tea", "tin"]),
        to_timestamps(np.array([0, 100])),
        to_timestamps(np.array([100, 200])),
    )
    rows = RowCodec(stored_columns(counted)).encode([pa.array([1, 2])], np.array([7, 8]))
    shop.commit(*zip(encode_keys([products, start, end]), rows, strict=True))
    tea = ({"product": "tea", "window_start": 0, "window_end": 100}, {"n": 1}, 7)
    assert shop.query() == [tea, ({"product": "tin", "window_start": 100, "window_end": 200}, {"n": 2}, 8)]
    assert shop.query(key={"window_start": "1970-01-01T00:00:00Z"}) == [tea]
    query = StoreQuery(APPLICATION, "sales", counted, shop.log, None, LmdbBackend().open)
    assert query.to_table().column_names == ["product", "window_start", "window_end", "n", "timestamp"]


def test_windows_that_expired_by_the_committed_clock_are_not_seen(totals: Shop) -> None:
    totals.apply(4)
    totals.commit(total(300, "tea", 1), clock=200)

    assert windows(totals.query()) == [200, 300]


AIRPORTS = GlobalTable(
    "airports",
    Topic("airports_raw", 2, "faa string", "name string"),
    Store("airports", 2, "faa string", "name string"),
)


def airport(faa: str | None, name: str | None) -> dict[str, Any]:
    return {"key": faa and {"faa": faa}, "value": name and {"name": name}, "timestamp": 5}


@pytest.fixture
def airports(tmp_path: Path) -> GlobalQuery:
    log = EmbeddedLog(tmp_path / "log")
    for faa, name in [
        ("JFK", "Idlewild"),
        ("EWR", "Newark"),
        (None, "Nowhere"),
        ("JFK", "Kennedy"),
        ("LGA", "Guardia"),
    ]:
        append(log, "shop-seed", AIRPORTS.topic, [airport(faa, name)])
    append(log, "shop-seed", AIRPORTS.topic, [airport("LGA", None)])
    return GlobalQuery(AIRPORTS, "shop-seed", log)


def test_global_table_has_the_last_value_of_each_key(airports: GlobalQuery) -> None:
    assert {row.key["faa"]: row.value["name"] for row in airports.rows()} == {"JFK": "Kennedy", "EWR": "Newark"}


def test_key_selects_a_row_of_a_global_table(airports: GlobalQuery) -> None:
    assert [row.value for row in airports.rows({"faa": "EWR"})] == [{"name": "Newark"}]


def test_rows_of_a_global_table_come_in_the_order_of_their_keys_first_records(airports: GlobalQuery) -> None:
    assert [row.key["faa"] for row in airports.rows()] == ["JFK", "EWR"]


def test_table_of_a_global_table_has_its_rows(airports: GlobalQuery) -> None:
    found = airports.to_table()

    assert found.select(["faa", "name"]).to_pylist() == [
        {"faa": row.key["faa"], "name": row.value["name"]} for row in airports.rows()
    ]
    assert found["timestamp"].cast(pa.int64()).to_pylist() == [5000, 5000]
    assert airports.to_table(key={"faa": "JFK"})["name"].to_pylist() == ["Kennedy"]
