"""Stores that are read in another process first."""

from __future__ import annotations

from pathlib import Path

import pytest
from fatal_flips import make_fatal

from headwater.runtime.restore.store_check import Kept, StoreCheckError, damaged
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.topology import Store

COUNTS = Store("counts", 3, "k string", "n bigint")
NOWHERE = ("", (), ())


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    """Three stores of 300 rows, closed."""
    paths = [tmp_path / str(number) for number in range(3)]
    for path in paths:
        store = LmdbStore(path)
        store.apply([([b"%06d" % number for number in range(300)], [b"v" * 20] * 300)], 0, 300)
        store.close()
    return paths


def test_stores_that_are_whole_stay_as_they_are(stores: list[Path]) -> None:
    before = [(path / "data.mdb").read_bytes() for path in stores]
    assert damaged([Kept(COUNTS, str(path)) for path in stores], NOWHERE) == {}
    assert [(path / "data.mdb").read_bytes() for path in stores] == before


def test_store_that_kills_its_reader_is_found_among_others_and_so_is_a_changed_row(stores: list[Path]) -> None:
    make_fatal(stores[0])
    file = stores[1] / "data.mdb"
    file.write_bytes(file.read_bytes().replace(b"vvv", b"vwv"))
    found = damaged([Kept(COUNTS, str(path)) for path in stores], NOWHERE)
    assert list(found) == [str(stores[0]), str(stores[1])]
    assert found[str(stores[0])].startswith("whoever reads its file is ended by the system (SIG")
    assert "a row is not what was written" in found[str(stores[1])]


def test_check_that_fails_for_another_reason_blames_no_store(stores: list[Path]) -> None:
    with pytest.raises(StoreCheckError, match="exit code 1"):
        damaged([Kept(Store("c", 1, "k string", "n bigint", backend="nobodys"), str(stores[0]))], NOWHERE)
