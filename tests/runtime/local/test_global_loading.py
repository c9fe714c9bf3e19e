"""Global tables are loaded in slices before tasks run that read them: real loop, log and stores, in this process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.client_events import StoreDamaged, StoreRestored, StoreRestoring, TasksPlaced
from headwater.runtime.driver.events import EpochCommitted, Event, TaskBeginsAgain
from headwater.runtime.engine.operators.joins import GlobalJoin
from headwater.runtime.engine.operators.operator import Flow
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import GlobalTable, Store, Topic
from headwater.runtime.log.segments.segment import FileRange
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.place import Client
from headwater.runtime.restore import client_stores, global_tables
from headwater.runtime.restore.links import LocalLink, StateLink
from headwater.runtime.restore.requests import StateRequest, StateResponse
from headwater.tests.runtime.local.local_application import PROJECT, LocalApplication, Part, part
from headwater.tests.runtime.local.summing import FLOW, PARTITIONS, WORDS, fed, last_sums, summed
from headwater.tests.runtime.local.test_rebalance import Story, sticky

APPENDS = 8
CITIES = Topic("cities", 2, "k string", "city string")
NAMED = Topic("named", PARTITIONS, "k string", "x bigint, city string", writer="test-app")
PLACES = GlobalTable("places", CITIES, Store("places", 2, "k string", "city string"))


def looked_up(name: str = "named", source: Topic = WORDS, into: Topic = NAMED) -> Part:
    """Numbers with the city of their key."""
    flow = Flow("k string", "x bigint, city string")
    nodes = (
        Source(source, ("f",)),
        GlobalJoin("f", PLACES, "left", {"k": "k"}, {"city": "city"}),
        Sink("f", into),
    )
    assert flow.key == FLOW.key
    return part(name, PARTITIONS, ((nodes, {}, {}),), (), (PLACES,))


def with_cities(app: LocalApplication) -> LocalApplication:
    """Numbers of four keys, and their cities, which have come in several appends."""
    for number in range(APPENDS):
        for partition in range(2):
            keys = [f"k{key}" for key in range(PARTITIONS) if key % 2 == partition]
            app.append(CITIES, [((key,), (f"{key} {number}",), number) for key in keys], partition)
    return fed(app)


def cities(app: LocalApplication) -> Counter[str]:
    return Counter(f"{row['key.k']} is {row['value.city']}" for row in app.read(NAMED))


ALL_NAMED = Counter({f"k{key} is k{key} {APPENDS - 1}": 30 for key in range(PARTITIONS)})


def segment(app: LocalApplication) -> Path:
    """The newest of the table's partition 1."""
    state = LogState.load(app.log.commits(f"{PROJECT}-seed"))
    return app.path / "log" / FileRange.from_token(state.ranges("cities", 1)[-1].token).path


UNREADABLE = "global table places, topic cities, cannot be loaded on client-1: cities, partition "


class CountingLink(LocalLink):
    """The real link; `loads` counts the requests of each client to load tables."""

    def __init__(self, name: str, loads: Counter[str], gate: threading.Event) -> None:
        self._name = name
        self._loads = loads
        self._gate = gate

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        if any(request.what == "load" for request in requests):
            self._loads[self._name] += 1
            self._gate.wait()
        return super().send(requests)


class Counting(LocalCluster):
    """The real clients; no table is loaded until `gate` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.loads = Counter[str]()
        self.gate = threading.Event()

    def link(self, client: Client, application: str) -> StateLink:
        return CountingLink(client.name, self.loads, self.gate)


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice does one step, and knows of few records beyond."""
    monkeypatch.setattr(client_stores, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(global_tables, "MAX_RANGES", 2)


@pytest.mark.parametrize("log", ["embedded", "sparse"])
@pytest.mark.usefixtures("short_slices")
def test_table_is_loaded_in_slices_before_the_first_epoch_of_its_readers(
    application: Callable[..., LocalApplication], log: str
) -> None:
    app = with_cities(application(looked_up(), log=log))
    cluster, story = Counting(), Story()
    cluster.gate.set()
    result = app.attempt(app.settings(max_records=7), cluster, story)
    assert (result.error, result.status) == (None, "caught_up")
    assert cities(app) == ALL_NAMED
    assert cluster.loads["client-1"] >= APPENDS
    kinds = [
        type(event) for event in story.events if isinstance(event, EpochCommitted | StoreRestoring | StoreRestored)
    ]
    assert EpochCommitted not in kinds[: kinds.index(StoreRestored)]
    heard = [
        (type(event), event.partition) for event in story.events if isinstance(event, StoreRestoring | StoreRestored)
    ]
    for partition in range(2):
        of_one = [kind for kind, number in heard if number == partition]
        assert of_one[-1] is StoreRestored
        assert set(of_one[:-1]) == {StoreRestoring}
    loaded = {(event.store, event.partition): event.records for event in story.of(StoreRestored)}
    assert loaded.keys() == {("places", 0), ("places", 1)}
    positions = APPENDS * PARTITIONS  # of a log without holes
    assert sum(loaded.values()) == positions if log == "embedded" else sum(loaded.values()) > positions


def test_tasks_that_read_no_table_run_while_it_is_loaded(application: Callable[..., LocalApplication]) -> None:
    app = with_cities(application(summed(), looked_up()))
    cluster = Counting()

    def then(commits: int) -> None:
        if not cluster.gate.is_set() and sum(n for n, _ in last_sums(app).values()) == 30 * PARTITIONS:
            assert not cities(app)
            cluster.gate.set()

    result = app.attempt(app.settings(max_records=7), cluster, Story(then))
    assert (result.error, result.status) == (None, "caught_up")
    assert cluster.gate.is_set()
    assert cities(app) == ALL_NAMED


def test_tables_of_clients_that_stay_are_kept_when_tasks_move(application: Callable[..., LocalApplication]) -> None:
    app = with_cities(application(looked_up()))
    sticky(app)
    cluster = Counting()
    cluster.gate.set()
    cluster.lose("client-2")
    before = Counter[str]()

    def then(commits: int) -> None:
        if commits == 2:
            before.update(cluster.loads)
            cluster.find("client-2")

    story = Story(then)
    result = app.attempt(app.settings(max_records=2, clients=2), cluster, story)
    assert (result.error, result.status) == (None, "caught_up")
    assert len(story.of(TasksPlaced)) == 2
    assert cluster.loads["client-1"] == before["client-1"] > 0
    assert cluster.loads["client-2"] > 0
    assert cities(app) == ALL_NAMED


def test_table_that_is_damaged_between_two_epochs_is_loaded_again(
    application: Callable[..., LocalApplication],
) -> None:
    app = with_cities(application(looked_up()))
    cluster, before = Counting(), Counter[str]()
    cluster.gate.set()

    def then(commits: int) -> None:
        if commits == 2:
            (data,) = Path(app.settings().state_dir).glob("*/*/global/places/data.mdb")
            found = data.read_bytes()
            assert b"k1 7" in found
            data.write_bytes(found.replace(b"k1 7", b"k1 ~"))
            before.update(cluster.loads)

    story = Story(then)
    result = app.attempt(app.settings(max_records=2), cluster, story)
    assert (result.error, result.status) == (None, "caught_up")
    told = [event.text for event in story.events if isinstance(event, StoreDamaged | TaskBeginsAgain)]
    assert any("places" in each for each in told)
    assert cluster.loads["client-1"] > before["client-1"] > 0
    assert cities(app) == ALL_NAMED


class PuttingBack(LocalCluster):
    """The real clients; a file is put back once a table could not be loaded without it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.failures: list[str] = []
        self.path = path
        self.content = path.read_bytes()

    def link(self, client: Client, application: str) -> StateLink:
        return PuttingBackLink(self)


class PuttingBackLink(LocalLink):
    def __init__(self, cluster: PuttingBack) -> None:
        self._cluster = cluster

    def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
        answers = super().send(requests)
        failures = [each.failure.kind for answer in answers for each in answer.tables if each.failure is not None]
        if failures:
            self._cluster.failures += failures
            self._cluster.path.write_bytes(self._cluster.content)
        return answers


def test_topic_of_a_table_that_cannot_be_read_for_a_while_holds_up_only_the_tasks_that_read_the_table(
    application: Callable[..., LocalApplication],
) -> None:
    app = with_cities(application(summed(), looked_up()))
    cluster = PuttingBack(segment(app))
    cluster.path.unlink()

    result = app.attempt(app.settings(max_records=7), cluster)

    assert (result.error, result.status) == (None, "caught_up")
    assert cluster.failures == ["unreadable"]
    assert cities(app) == ALL_NAMED


def test_topic_of_a_table_that_stays_unreadable_ends_the_run_with_table_topic_segment_and_way_out(
    application: Callable[..., LocalApplication],
) -> None:
    app = with_cities(application(looked_up()))
    path = segment(app)
    path.unlink()

    result = app.attempt(app.settings(max_records=7))

    assert (result.status, cities(app)) == ("failed", Counter())
    assert UNREADABLE in result.error
    assert path.name in result.error
    assert "put the file back from a copy of the log" in result.error


@pytest.mark.parametrize("back", [True, False])
def test_topic_of_a_table_that_an_epoch_cannot_read_holds_up_the_tasks_that_read_the_table(
    application: Callable[..., LocalApplication], back: bool
) -> None:
    app = with_cities(application(looked_up()))
    paths: list[Path] = []
    contents: list[bytes] = []

    class Damaging(Story):
        def on(self, event: Event) -> None:
            super().on(event)
            if isinstance(event, EpochCommitted) and len(self.of(EpochCommitted)) == 2:
                app.append(CITIES, [(("k9",), ("nobody lives there",), 99)], 1)
                paths.append(segment(app))
                contents.append(paths[0].read_bytes())
                paths[0].unlink()
            if isinstance(event, TaskBeginsAgain) and back:
                paths[0].write_bytes(contents[0])

    story = Damaging()
    result = app.attempt(app.settings(max_records=7), LocalCluster(), story)

    told = story.of(TaskBeginsAgain)
    assert {event.partition for event in told} == set(range(PARTITIONS))
    assert told[0].cause.startswith("global table places, topic cities, cannot be brought forward: ")
    if back:
        assert (result.error, result.status) == (None, "caught_up")
        assert cities(app) == ALL_NAMED
    else:
        assert result.status == "failed"
        assert UNREADABLE in result.error
        assert paths[0].name in result.error
