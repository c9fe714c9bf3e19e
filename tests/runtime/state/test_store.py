"""What every StateStore promises, whatever backend it lives in."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.runtime.state.directory import wipe
from headwater.runtime.state.store import Changes, StateStore, StoreBackend, StoreDamagedError, StoreUnusableError
from headwater.runtime.tasks.errors import TaskMigratedError


def rows(store: StateStore, start: bytes | None = None, end: bytes | None = None) -> list[tuple[bytes, bytes]]:
    return list(store.range(start, end))


def test_new_store_is_empty_at_position_0(store: StateStore) -> None:
    assert store.position == 0
    assert rows(store) == []
    assert store.get_many([b"a"]) == [None]


def test_applied_changes_are_read_in_the_order_asked_for(store: StateStore) -> None:
    store.apply([([b"b", b"a", b"c"], [b"2", b"1", b""])], 0, 3)

    assert store.get_many([b"c", b"x", b"a", b"b", b"a"]) == [b"", None, b"1", b"2", b"1"]
    assert store.position == 3


def test_later_change_of_a_key_wins_within_a_chunk_and_across_chunks(store: StateStore) -> None:
    store.apply(
        [
            ([b"a", b"a", b"b", b"c", b"c"], [b"1", b"2", b"1", b"1", None]),
            ([b"b", b"d", b"d"], [None, None, b"1"]),
        ],
        0,
        8,
    )

    assert rows(store) == [(b"a", b"2"), (b"d", b"1")]


class WipingKeys(list[bytes]):
    """Keys during whose writing another process wipes the store."""

    def __init__(self, keys: list[bytes], directory: Path) -> None:
        super().__init__(keys)
        self._directory = directory

    def __iter__(self) -> Iterator[bytes]:
        wipe(self._directory)
        return super().__iter__()


@pytest.mark.parametrize("rows_before", [0, 1])
def test_store_that_is_wiped_while_it_is_written_is_restored_from_its_first_position(
    store: StateStore, backend: StoreBackend, tmp_path: Path, rows_before: int
) -> None:
    directory = tmp_path / "state" / "store" / "0"
    store.apply([([b"a"] * rows_before, [b"1"] * rows_before)], 0, rows_before)

    with suppress(TaskMigratedError):  # RocksDB and memory may not see it before the next use
        store.apply([(WipingKeys([b"b", b"c"], directory), [b"2", b"3"])], rows_before, rows_before + 2)

    store = backend.open(directory)
    assert store.position == 0
    assert rows(store) == []
    store.apply([([b"b"], [b"2"])], 0, 1)
    assert rows(store) == [(b"b", b"2")]


def test_size_counts_rows_and_the_bytes_that_they_take(
    store: StateStore, backend: StoreBackend, tmp_path: Path
) -> None:
    keys = [f"{number:04}".encode() for number in range(3000)]
    store.apply([(keys, [os.urandom(100)] * 3000)], 0, 3000)
    before = store.size
    store.apply([(keys[:1000], [None] * 1000)], 3000, 4000)

    assert before.rows == 3000
    assert before.bytes >= 3000 * 100
    assert store.size.rows <= 2000  # RocksDB counts a deletion until it is merged, and takes it off twice
    store.close()
    assert 1000 <= backend.open_to_read(tmp_path / "state" / "store" / "0").size.rows <= 2000


def test_deleting_an_absent_key_changes_nothing(store: StateStore) -> None:
    store.apply([([b"b"], [b"1"])], 0, 1)
    store.apply([([b"a", b"c"], [None, None])], 1, 3)

    assert rows(store) == [(b"b", b"1")]


def test_range_takes_its_start_and_leaves_its_end(store: StateStore) -> None:
    store.apply([([b"a", b"b", b"ba", b"c"], [b"1", b"2", b"3", b"4"])], 0, 4)

    assert rows(store, b"b", b"c") == [(b"b", b"2"), (b"ba", b"3")]
    assert rows(store, None, b"b") == [(b"a", b"1")]
    assert rows(store, b"bb", None) == [(b"c", b"4")]
    assert rows(store, b"c", b"a") == []


def test_range_over_many_rows_yields_each_once(store: StateStore) -> None:
    keys = [b"%06d" % number for number in range(20_000)]
    store.apply([(keys, keys)], 0, len(keys))

    assert [key for key, _ in store.range(None, None)] == keys


@pytest.mark.parametrize("count", [0, 1, 16, 17, 4112, 10_000])
def test_reverse_gives_the_same_rows_from_the_last_to_the_first(store: StateStore, count: int) -> None:
    keys = [b"%06d" % number for number in range(count)]
    store.apply([(keys, keys)], 0, 1)

    for start, end in [(None, None), (b"000007", b"004100"), (None, b"000016x"), (b"1", None), (b"2", b"1")]:
        assert list(store.range(start, end, reverse=True)) == rows(store, start, end)[::-1]


def test_reverse_sorts_long_keys_too(store: StateStore) -> None:
    ends = ["", "a", "m", "z" * 600]
    keys = sorted(
        f"{number:03}{'k' * length}{end}".encode() for number in range(30) for length in (0, 492, 700) for end in ends
    )
    store.apply([(keys, keys)], 0, 1)

    for start, end in [(None, None), (keys[5], keys[-7]), (keys[100], keys[104]), (keys[9] + b"b", keys[11] + b"b")]:
        expected = [key for key in keys if (start is None or start <= key) and (end is None or key < end)]
        assert [key for key, _ in store.range(start, end, reverse=True)] == expected[::-1]


def test_reverse_reads_rows_as_they_are_taken(store: StateStore) -> None:
    keys = [b"%06d" % number for number in range(10_000)]
    store.apply([(keys, keys)], 0, 1)

    reading = store.range(None, None, reverse=True)
    last = next(reading)
    store.apply([([b"000000", b"009999"], [b"later", b"later"])], 1, 2)

    assert (last, list(reading)[-1]) == ((b"009999", b"009999"), (b"000000", b"later"))


def test_store_may_be_changed_while_a_range_is_read(store: StateStore) -> None:
    keys = [b"%06d" % number for number in range(10_000)]
    store.apply([(keys, keys)], 0, 10_000)

    reading = store.range(None, None)
    next(reading)
    store.apply([([b"zz"], [b"1"])], 10_000, 10_001)

    assert list(reading)[-1] == (b"zz", b"1")


def test_other_position_is_refused_with_nothing_applied(store: StateStore) -> None:
    store.apply([([b"a"], [b"1"])], 0, 1)

    with pytest.raises(TaskMigratedError) as caught:
        store.apply([([b"a"], [b"2"])], 0, 1)

    assert (caught.value.expected, caught.value.found) == (0, 1)
    assert rows(store) == [(b"a", b"1")]
    assert store.position == 1


def test_failing_changes_leave_store_and_position_as_they_were(store: StateStore) -> None:
    with pytest.raises(ValueError):
        store.apply([([b"a"], [b"1"]), ([b"b", b"c"], [b"2"])], 0, 3)

    assert rows(store) == []
    assert store.position == 0


def test_expiry_deletes_what_lies_below_the_bound_and_nothing_else(store: StateStore) -> None:
    store.apply([([b"a", b"az", b"b", b"c"], [b"1", b"2", b"3", b"4"])], 0, 4)
    store.apply([], 4, 4, expire_below=b"b")

    assert rows(store) == [(b"b", b"3"), (b"c", b"4")]


def test_expiry_of_everything_leaves_an_empty_store(store: StateStore) -> None:
    store.apply([([b"a", b"b"], [b"1", b"2"])], 0, 2, expire_below=b"c")

    assert rows(store) == []


def test_row_that_is_written_below_the_bound_is_expired_in_the_same_step(store: StateStore) -> None:
    store.apply([([b"a", b"c"], [b"1", b"2"])], 0, 2, expire_below=b"b")

    assert rows(store) == [(b"c", b"2")]


def test_data_beyond_the_first_room_is_taken(store: StateStore) -> None:
    keys = [b"%06d" % number for number in range(30_000)]
    values = [os.urandom(100)] * len(keys)
    store.apply(iter([(keys[:15_000], values[:15_000]), (keys[15_000:], values[15_000:])]), 0, 30_000)

    assert store.position == 30_000
    assert store.get_many([keys[0], keys[-1]]) == [values[0], values[0]]


def test_reopened_store_holds_what_was_applied(backend: StoreBackend, tmp_path: Path) -> None:
    first = backend.open(tmp_path / "again")
    first.apply([([b"a"], [b"1"])], 0, 1)
    first.close()
    first.close()

    second = backend.open(tmp_path / "again")

    assert second.position == 1
    assert rows(second) == [(b"a", b"1")]


def test_store_that_was_never_closed_holds_what_was_applied(backend: StoreBackend, tmp_path: Path) -> None:
    backend.open(tmp_path / "again").apply([([b"a"], [b"1"])], 0, 1)

    assert backend.open(tmp_path / "again").get_many([b"a"]) == [b"1"]


def test_store_opens_beside_an_open_one_that_cannot_be_looked_at_any_more(
    backend: StoreBackend, tmp_path: Path
) -> None:
    backend.open(tmp_path / "gone" / "0").apply([([b"a"], [b"1"])], 0, 1)
    (tmp_path / "gone").rename(tmp_path / "elsewhere")
    (tmp_path / "gone").write_text("no folder")

    other = backend.open(tmp_path / "other")

    other.apply([([b"b"], [b"2"])], 0, 1)
    assert other.get_many([b"b"]) == [b"2"]
    (tmp_path / "gone").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "gone")


def test_store_whose_folder_was_renamed_while_it_was_open_holds_what_was_applied_or_nothing(
    backend: StoreBackend, tmp_path: Path, transactional: bool
) -> None:
    before, after = tmp_path / "before" / "0", tmp_path / "after" / "0"
    backend.open(before).apply([([b"a"], [b"1"])], 0, 1)
    before.parent.rename(after.parent)

    renamed = backend.open(after)

    if not transactional:
        with pytest.raises(StoreDamagedError):
            _ = renamed.position
    assert (rows(renamed), renamed.position) == (([(b"a", b"1")], 1) if transactional else ([], 0))
    renamed.apply([([b"b"], [b"2"])], renamed.position, 2)
    assert renamed.get_many([b"b"]) == [b"2"]
    assert backend.open(before).position == 0


def test_closed_store_can_be_used_again(store: StateStore) -> None:
    store.apply([([b"a"], [b"1"])], 0, 1)
    store.close()

    assert store.get_many([b"a"]) == [b"1"]


def apply_and_close(store: StateStore, changes: Changes, from_position: int, position: int) -> None:
    store.apply([changes], from_position, position)
    store.close()


def test_forked_process_reads_and_writes_the_same_store(store: StateStore) -> None:
    store.apply([([b"a"], [b"1"])], 0, 1)
    context = multiprocessing.get_context("fork")

    child = context.Process(target=apply_and_close, args=(store, ([b"b"], [b"2"]), 1, 2))
    child.start()
    child.join()

    assert child.exitcode == 0
    assert rows(store) == [(b"a", b"1"), (b"b", b"2")]
    assert store.position == 2


def test_process_that_ends_without_closing_leaves_what_it_applied_or_an_empty_store(
    store: StateStore, transactional: bool
) -> None:
    store.apply([([b"a"], [b"1"])], 0, 1)
    if (child := os.fork()) == 0:
        store.apply([([b"b"], [b"2"])], 1, 2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

    if not transactional:
        with pytest.raises(StoreDamagedError, match="the process that had it open was killed"):
            _ = store.position
    assert rows(store) == ([(b"a", b"1"), (b"b", b"2")] if transactional else [])
    assert store.position == (2 if transactional else 0)
    store.apply([([b"c"], [b"3"])], store.position, 3)
    assert store.get_many([b"c"]) == [b"3"]


def test_process_that_needs_a_store_gets_it_from_the_one_that_has_it_open(store: StateStore) -> None:
    keys = [b"%04d" % number for number in range(5000)]
    store.apply([(keys, keys)], 0, 5000)
    child = multiprocessing.get_context("spawn").Process(
        target=apply_and_close, args=(store, ([b"of child"], [b"1"]), 5000, 5001)
    )
    child.start()
    child.join()

    assert child.exitcode == 0
    assert store.get_many([b"of child"]) == [b"1"]
    store.apply([([b"of child"], [b"2"])], 5001, 5002)
    assert rows(store) == [*zip(keys, keys, strict=True), (b"of child", b"2")]


def test_store_is_read_while_another_process_has_it_open_to_write(
    backend: StoreBackend, store: StateStore, tmp_path: Path
) -> None:
    store.apply([([b"a"], [b"1"])], 0, 1)
    begin, told = os.pipe()
    if (child := os.fork()) == 0:
        os.read(begin, 1)
        reader = backend.open_to_read(tmp_path / "state" / "store" / "0")
        os._exit(7 if (reader.position, rows(reader)) == (2, [(b"a", b"1"), (b"b", b"2")]) else 1)
    store.apply([([b"b"], [b"2"])], 1, 2)
    os.write(told, b"!")

    assert os.waitpid(child, 0)[1] == 7 << 8
    os.close(begin)
    os.close(told)
    store.apply([([b"c"], [b"3"])], 2, 3)
    assert rows(store) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]


def test_map_that_another_process_has_grown_is_read_on(store: StateStore) -> None:
    store.apply([([b"a"], [b"1"])], 0, 1)
    keys = [b"%06d" % number for number in range(30_000)]
    child = multiprocessing.get_context("spawn").Process(
        target=store.apply, args=([(keys, [b"x" * 100] * 30_000)], 1, 2)
    )
    child.start()
    child.join()

    assert child.exitcode == 0
    assert store.get_many([b"a", keys[-1]]) == [b"1", b"x" * 100]


def apply_to_the_disk(store: StateStore, changes: Changes) -> None:
    store.apply([changes], 1, 2)
    getattr(store, "checkpoint", lambda: None)()


def test_disk_that_takes_no_more_leaves_the_store_as_it_was_or_empty(store: StateStore, transactional: bool) -> None:
    store.apply([([b"a"], [b"1"])], 0, 1)
    keys = [b"%06d" % number for number in range(20_000)]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        with pytest.raises(StoreUnusableError, match="raise the limit of a file's size"):
            apply_to_the_disk(store, (keys, [os.urandom(100) for _ in keys]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert rows(store) == ([(b"a", b"1")] if transactional else [])
    store.apply([(keys, keys)], store.position, 2)
    store.close()
    assert store.position == 2


class KillsItsReader(list[bytes]):
    """A chunk of keys that ends the process when the store comes to it, in the middle of its transaction."""

    def __iter__(self):  # type: ignore[no-untyped-def]
        os.kill(os.getpid(), 9)


def test_writer_killed_in_its_transaction_leaves_nothing_of_it(store: StateStore) -> None:
    store.apply([([b"a"], [b"1"])], 0, 1)
    if (child := os.fork()) == 0:
        store.apply([([b"b"], [b"2"]), (KillsItsReader([b"c"]), [b"3"])], 1, 3)
    assert os.waitpid(child, 0)[1] == 9

    assert store.position == 1
    store.apply([([b"d"], [b"4"])], 1, 2)
    assert rows(store) == [(b"a", b"1"), (b"d", b"4")]


LONG = st.builds(
    lambda stem, length, tail: stem * length + tail,
    st.sampled_from([b"p", b"q"]),
    st.integers(490, 520),
    st.binary(max_size=3),
)
KEY = st.binary(min_size=1, max_size=3) | LONG
CHUNK = st.lists(st.tuples(KEY, st.none() | st.binary(max_size=5)), max_size=12)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    chunks=st.lists(CHUNK, min_size=1, max_size=3),
    start=st.none() | KEY,
    end=st.none() | KEY,
    below=st.none() | KEY,
    asked=st.lists(KEY, max_size=5),
)
def test_any_changes_give_what_a_sorted_dict_gives(
    store: StateStore,
    chunks: list[list[tuple[bytes, bytes | None]]],
    start: bytes | None,
    end: bytes | None,
    below: bytes | None,
    asked: list[bytes],
) -> None:
    at = store.position
    store.apply(
        [([key for key, _ in store.range(None, None)], [None] * sum(1 for _ in store.range(None, None)))], at, at
    )
    model: dict[bytes, bytes] = {}
    for chunk in chunks:
        for key, value in chunk:
            model.pop(key, None)
            if value is not None:
                model[key] = value
    model = {key: value for key, value in model.items() if below is None or key >= below}

    store.apply([([k for k, _ in chunk], [v for _, v in chunk]) for chunk in chunks], at, at + 1, below)

    assert rows(store) == sorted(model.items())
    assert rows(store, start, end) == [
        (key, value)
        for key, value in sorted(model.items())
        if (start is None or key >= start) and (end is None or key < end)
    ]
    assert store.get_many(asked) == [model.get(key) for key in asked]
