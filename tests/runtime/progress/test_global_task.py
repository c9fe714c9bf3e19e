"""What global tables drop is counted once for the application, over restarts too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headwater.runtime.ingest.append import append
from headwater.runtime.ir.topology import GlobalTable, Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.progress.committed import Committed
from headwater.runtime.progress.committer import Committer
from headwater.runtime.progress.positions import GlobalTask, counted_as
from headwater.runtime.task_id import global_task

EVENTS = Topic("events", 1, "k string", "v string")
PLACES = Topic("places", 2, "city string, street string", "name string")
TABLES = tuple(GlobalTable(name, PLACES, Store(name, 2, PLACES.key, PLACES.value)) for name in ("places", "again"))


def topology(*tables: GlobalTable) -> Topology:
    parts = tuple(
        Subtopology(number, f"part{number}", 1, lambda tasks: tasks, (EVENTS,), (), (), tables) for number in range(2)
    )
    return Topology("p", "t", "1", "hash", parts)


class Application:
    """Starts of one application on one log."""

    def __init__(self, root: Path) -> None:
        self.log = EmbeddedLog(root)

    def feed(self, *keys: tuple[str | None, str | None]) -> None:
        cities, streets = [city for city, _ in keys], [street for _, street in keys]
        names = ["x"] * len(keys)
        rows = {"city": pa.array(cities, pa.string()), "street": pa.array(streets, pa.string()), "name": names}
        append(self.log, "p-seed", PLACES, pa.table(rows))

    def start(self, *tables: GlobalTable) -> tuple[Committed, Committer, GlobalTask]:
        declared = topology(*(tables or TABLES[:1]))
        committed = Committed(self.log, declared)
        committer = Committer(committed.own)
        committer.claim(TopologyDescription.from_topology(declared))
        return committed, committer, GlobalTask(declared, committed)


@pytest.fixture
def application(tmp_path: Path) -> Application:
    return Application(tmp_path)


def test_key_with_all_columns_null_is_dropped_whatever_its_partition(application: Application) -> None:
    application.feed((None, None), ("Oslo", None), (None, "Main"), (None, None), (None, None))
    _, _, task = application.start()
    task.advance()
    assert task.dropped == {"places:null_key": 3}


def test_records_count_once_while_running(application: Application) -> None:
    committed, committer, task = application.start()
    for expected in (1, 2):
        application.feed((None, None), ("Oslo", "Main"))
        committed.refresh()
        task.advance()
        task.advance()
        assert task.dropped == {"places:null_key": 1}
        committer.commit(1, task.take())
        assert committed.own.tasks.last_commit(global_task(committed.application)).dropped == {
            "places:null_key": expected
        }


def test_restart_goes_on_where_the_commits_end(application: Application) -> None:
    application.feed((None, None), (None, None))
    _, committer, task = application.start()
    task.advance()
    committer.commit(1, task.take())
    application.feed((None, None))
    _, _, restarted = application.start()
    restarted.advance()
    assert restarted.dropped == {"places:null_key": 1}


def test_what_was_not_committed_is_counted_again(application: Application) -> None:
    application.feed((None, None))
    for _ in range(2):
        _, _, task = application.start()
        task.advance()
        assert task.dropped == {"places:null_key": 1}


def test_records_without_drops_are_not_looked_at_again(application: Application) -> None:
    application.feed(("Oslo", "Main"))
    committed, committer, task = application.start()
    task.advance()
    assert not task.dropped
    committer.commit(1, task.take())
    assert (
        sum(
            committed.own.tasks.last_commit(global_task(committed.application)).globals_[counted_as(TABLES[0])].values()
        )
        == 1
    )
    assert task.take() == ()


def test_each_table_of_a_topic_drops_its_own(application: Application) -> None:
    application.feed((None, None))
    _, _, task = application.start(*TABLES)
    task.advance()
    assert task.dropped == {"places:null_key": 1, "again:null_key": 1}
