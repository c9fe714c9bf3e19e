"""Stores that end the process that reads them, and workers that somebody kills: what is wiped, and what is not."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headwater.runtime.cluster.spark.cluster import OnExecutor
from headwater.runtime.ir.topology import GlobalTable, Store, Topic
from headwater.runtime.placing.place import Client
from headwater.runtime.restore.links import MAX_KILLED, IsolatingLink, WorkerKilledError, claim_stores
from headwater.runtime.restore.requests import TABLE, StateLocation, StateRequest, StateResponse, StoreTarget
from headwater.runtime.state.directory import StateDirectory, wipe_outdated_copy
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.state.process_file import Owner, ProcessFile
from headwater.runtime.task_id import StoreId
from headwater.tests.runtime.restore.fatal_flips import make_fatal

pytestmark = pytest.mark.spark

COUNTS = Store("counts", 4, "k string", "n bigint")
NAMES = GlobalTable("names", Topic("names", 1, "k string", "n bigint"), Store("names", 1, "k string", "n bigint"))


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    """Four stores of 300 rows and a global table's, closed."""
    client = tmp_path / "state/client-1/p-t"
    paths = [*(client / f"counts/{number}" for number in range(4)), client / "global/names"]
    wipe_outdated_copy(StateDirectory(tmp_path / "state", "client-1", "p-t"), paths[4], NAMES)  # notes its columns
    for path in paths:
        store = LmdbStore(path)
        store.apply([([b"%06d" % number for number in range(300)], [b"v" * 20] * 300)], 0, 300)
        store.close()
    return paths


@pytest.fixture
def location(tmp_path: Path) -> StateLocation:
    log = ("embedded", {"path": str(tmp_path / "log")})
    return StateLocation(str(tmp_path / "state"), "p-t", "client-1", log=log, stores=(COUNTS,), tables=(NAMES,))


def owned(location: StateLocation, *, closed: bool) -> None:
    """The last owner has closed all stores, or not."""
    owner = Owner.from_pid(os.getpid())
    assert owner is not None
    directory = Path(location.state_dir, location.folder, location.application)
    replace(ProcessFile.take(directory, owner), closed=closed).write(directory)


def spark_link(session: SparkSession) -> IsolatingLink:
    return IsolatingLink(OnExecutor(session, Client("client-1", 2), "p-t", lambda _: False))


@pytest.mark.parametrize("closed", [True, False])
def test_store_that_kills_its_reader_is_wiped_and_no_neighbour(
    stores: list[Path], location: StateLocation, spark_session: SparkSession, closed: bool
) -> None:
    owned(location, closed=closed)
    link = spark_link(spark_session)
    whole = [(path / "data.mdb").read_bytes() for path in stores]
    make_fatal(stores[1])
    make_fatal(stores[4])
    file = stores[2] / "data.mdb"
    file.write_bytes(file.read_bytes().replace(b"vvv", b"vwv"))

    found = claim_stores(link, location)
    if closed:  # nobody has read rows so far
        assert [each.position for each in found.stores] == [300, 300, 300, 300]
        (found,) = link.send([looking(location, found)])

    assert found.failure is None
    at = {each.store: each for each in found.stores}
    assert {store: each.position for store, each in at.items() if store.partition != TABLE} == {
        StoreId("counts", 0): 300,
        StoreId("counts", 1): 0,
        StoreId("counts", 2): 0,
        StoreId("counts", 3): 300,
    }
    assert at[StoreId("counts", 1)].damage.startswith("its file crashes every process that reads it (")
    if closed:  # else its damage was found by the worker that died at the other one
        assert "a row is not what was written" in at[StoreId("counts", 2)].damage
    assert not stores[1].exists()
    assert stores[4].exists() == closed
    assert [(stores[number] / "data.mdb").read_bytes() for number in (0, 3)] == [whole[0], whole[3]]


def looking(location: StateLocation, held: StateResponse) -> StateRequest:
    targets = tuple(StoreTarget.at(each.store, 0) for each in held.stores)
    return StateRequest("verify", replace(location, process_id=held.process_id), targets)


FRAGILE = """
import os
import signal
from pathlib import Path

from headwater.plugins import hookimpl
from headwater.runtime.state.lmdb.store import LmdbBackend


class Fragile(LmdbBackend):
    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def open(self, directory):
        for number in range(self.times):
            try:
                (directory.parent / f"killed {number}").touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)
        return super().open(directory)


@hookimpl
def headwater_register_store_backends(register):
    register("fragile", Fragile, {"type": "object"})
"""


@pytest.mark.parametrize(("times", "survives"), [(MAX_KILLED, True), (50, False)])
def test_worker_that_somebody_kills_is_no_stores_fault(
    tmp_path: Path, stores: list[Path], location: StateLocation, spark_session: SparkSession, times: int, survives: bool
) -> None:
    owned(location, closed=True)
    (tmp_path / "headwater.yml").write_text("name: test")
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins/fragile.py").write_text(FRAGILE)
    fragile = replace(COUNTS, backend="fragile", options={"times": times})
    location = replace(location, stores=(fragile,), plugins=(str(tmp_path), ("plugins.fragile",), ()))
    link = IsolatingLink(OnExecutor(spark_session, Client("client-1", 1), "p-t", lambda _: False))

    if survives:
        found = claim_stores(link, location)
        assert [each.position for each in found.stores] == [300, 300, 300, 300]
        assert len(list(stores[0].parent.glob("killed *"))) == times
    else:
        with pytest.raises(WorkerKilledError, match="Python worker exited unexpectedly"):
            claim_stores(link, location)
    assert all(path.exists() for path in stores)
