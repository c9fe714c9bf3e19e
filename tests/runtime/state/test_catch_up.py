"""Catching up, against the embedded log: what is applied, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.ranges import Columns, Fetched, LogRange
from headwater.runtime.records.schema import CHANGELOG
from headwater.runtime.state.catch_up import apply_slices, catch_up, read_slice, slices, start_empty
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.store import StateStore
from headwater.runtime.tasks.errors import TaskCorruptedError, TaskMigratedError
from headwater.runtime.tasks.plan import StoreInput


@dataclass
class Changelog:
    """A changelog partition that grows; record n sets key n modulo 5 to n, every seventh deletes."""

    log: EmbeddedLog
    ranges: list[LogRange] = field(default_factory=list)
    expected: list[dict[bytes, bytes]] = field(default_factory=lambda: [{}])

    @property
    def end(self) -> int:
        return len(self.expected) - 1

    def append(self, count: int) -> None:
        numbers = range(self.end, self.end + count)
        keys = [b"%d" % (number % 5) for number in numbers]
        values = [None if number % 7 == 6 else b"%d" % number for number in numbers]
        table = pa.table([keys, values, [0] * count], schema=CHANGELOG)
        base = self.end
        (segment,) = self.log.write("a", "t", f"{base}", table, 0, 0)
        self.ranges.append(replace(segment, base_offset=base, base_position=base).range())
        for key, value in zip(keys, values, strict=True):
            rows = self.expected[-1] | {key: value or b""}
            self.expected.append({key: value for key, value in rows.items() if value})

    def planned(self, applied: int = 0, position: int | None = None) -> StoreInput:
        reach = [each for each in self.ranges if each.end > applied]
        return StoreInput("s", applied, self.end if position is None else position, tuple(reach))


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    changelog = Changelog(EmbeddedLog(tmp_path / "log"))
    for count in (3, 10, 1):
        changelog.append(count)
    return changelog


@pytest.fixture
def store(tmp_path: Path) -> LmdbStore:
    return LmdbStore(tmp_path / "store")


def rows(store: StateStore) -> dict[bytes, bytes]:
    return dict(store.range(None, None))


def test_empty_store_is_brought_to_the_planned_position(store: LmdbStore, changelog: Changelog) -> None:
    catch_up(store, changelog.planned(), changelog.log)

    assert store.position == 14
    assert rows(store) == changelog.expected[14]


@pytest.mark.parametrize("first", range(15))
@pytest.mark.parametrize("then", [13, 14])
def test_store_goes_on_from_where_it_stands(store: LmdbStore, changelog: Changelog, first: int, then: int) -> None:
    first = min(first, then)
    catch_up(store, changelog.planned(0, first), changelog.log)
    assert rows(store) == changelog.expected[first]

    catch_up(store, changelog.planned(0, then), changelog.log)

    assert store.position == then
    assert rows(store) == changelog.expected[then]


def test_store_ahead_of_what_the_driver_knows_skips_what_it_has(store: LmdbStore, changelog: Changelog) -> None:
    catch_up(store, changelog.planned(), changelog.log)
    changelog.append(4)

    catch_up(store, changelog.planned(applied=3), changelog.log)

    assert rows(store) == changelog.expected[18]


def test_planned_store_without_ranges_reads_nothing(store: LmdbStore, changelog: Changelog) -> None:
    catch_up(store, StoreInput("s", 0, 0, ()), changelog.log)

    assert store.position == 0


def test_ranges_in_any_order_are_applied_by_position(store: LmdbStore, changelog: Changelog) -> None:
    planned = changelog.planned()

    catch_up(store, replace(planned, ranges=planned.ranges[::-1]), changelog.log)

    assert rows(store) == changelog.expected[14]


def test_store_beyond_the_plan_has_migrated(store: LmdbStore, changelog: Changelog) -> None:
    catch_up(store, changelog.planned(), changelog.log)

    with pytest.raises(TaskMigratedError) as caught:
        catch_up(store, changelog.planned(0, 13), changelog.log)

    assert (caught.value.expected, caught.value.found) == (13, 14)
    assert rows(store) == changelog.expected[14]


def test_store_below_what_the_driver_took_for_applied_is_corrupt(store: LmdbStore, changelog: Changelog) -> None:
    with pytest.raises(TaskCorruptedError, match=r"store s lacks the changelog's records 0 to 2") as caught:
        catch_up(store, changelog.planned(applied=3), changelog.log)

    assert caught.value.store == "s"
    assert store.position == 0


def test_gap_between_ranges_is_corrupt(store: LmdbStore, changelog: Changelog) -> None:
    planned = changelog.planned()

    with pytest.raises(TaskCorruptedError, match=r"records 3 to 12"):
        catch_up(store, replace(planned, ranges=(planned.ranges[0], planned.ranges[2])), changelog.log)


def test_plan_whose_ranges_end_too_early_is_corrupt(store: LmdbStore, changelog: Changelog) -> None:
    with pytest.raises(TaskCorruptedError, match=r"records 14 to 19"):
        catch_up(store, changelog.planned(0, 20), changelog.log)


def test_rows_below_the_expired_key_are_deleted_with_or_without_new_records(
    store: LmdbStore, changelog: Changelog
) -> None:
    catch_up(store, changelog.planned(), changelog.log, expire_below=b"2")
    assert rows(store) == {key: value for key, value in changelog.expected[14].items() if key >= b"2"}

    catch_up(store, changelog.planned(), changelog.log, expire_below=b"3")
    assert rows(store) == {key: value for key, value in changelog.expected[14].items() if key >= b"3"}
    assert store.position == 14


@pytest.mark.parametrize("most", [1, 2, 5, 12, 100])
@pytest.mark.parametrize("position", [0, 2, 7])
def test_slices_are_adjacent_and_each_is_a_step_of_its_own(
    store: LmdbStore, changelog: Changelog, most: int, position: int
) -> None:
    catch_up(store, changelog.planned(0, position), changelog.log)
    steps = list(slices(changelog.planned(position, 14), position, most))

    for step in steps:
        assert step.from_position == store.position
        apply_slices(store, [step], changelog.log)
        assert store.position == step.position
        assert rows(store) == changelog.expected[step.position]
    assert store.position == 14
    assert all(step.position - step.from_position == most for step in steps[:-1])


def test_slices_of_a_large_range_have_its_records_once(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "log")
    count, first, most = 100_000, 10_001, 16_384
    keys = [b"%d" % number for number in range(count)]
    (segment,) = log.write("a", "t", "0", pa.table([keys, keys, [0] * count], schema=CHANGELOG), 0, 0)
    within = replace(segment, base_offset=0, base_position=0).range()

    steps = list(slices(StoreInput("s", first, count - 1, (within,)), first, most))

    assert [step.position for step in steps] == [*range(first + most, count - 1, most), count - 1]
    found = [key for step in steps for records in read_slice(step, log) for key in records["key"].to_pylist()]
    assert found == keys[first : count - 1]


class TornLog:
    """A log whose file ends in the middle of a range."""

    def __init__(self, log: EmbeddedLog) -> None:
        self.log = log

    def ahead(self, ranges: object) -> Any:
        return self

    def read(self, within: LogRange, start: int | None = None, columns: Columns = None) -> Iterator[Fetched]:
        for fetched in self.log.read(within, start, columns):
            yield replace(fetched, end=within.start)
        raise OSError("torn")


def test_failing_read_leaves_the_store_where_it_was(store: LmdbStore, changelog: Changelog) -> None:
    with pytest.raises(OSError, match="torn"):
        catch_up(store, changelog.planned(), TornLog(changelog.log))

    assert store.position == 0
    assert rows(store) == {}


def test_store_that_what_is_kept_of_its_changelog_reaches_is_left_alone(store: LmdbStore, changelog: Changelog) -> None:
    catch_up(store, changelog.planned(position=3), changelog.log)
    assert not start_empty(store, replace(changelog.planned(), ranges=tuple(changelog.ranges[1:])))
    assert (store.position, rows(store)) == (3, changelog.expected[3])


def test_store_from_before_what_is_kept_of_its_changelog_starts_empty(store: LmdbStore, changelog: Changelog) -> None:
    catch_up(store, changelog.planned(position=3), changelog.log)
    store.apply([([b"\x01" * 600, b"\x80" + b"\0" * 7], [b"x", b"y"])], 3, 3)
    assert start_empty(store, replace(changelog.planned(), ranges=tuple(changelog.ranges[2:])))
    assert (store.position, rows(store)) == (changelog.end, {})
