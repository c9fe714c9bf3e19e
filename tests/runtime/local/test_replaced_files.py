"""Files of records that go after somebody has planned to read them: others have taken their place, so all goes on."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.cluster.local import LocalCluster, LocalJob
from headwater.runtime.driver.client_events import StoreDamaged
from headwater.runtime.driver.cluster import EpochJob
from headwater.runtime.driver.events import TaskBeginsAgain, TaskFailed
from headwater.runtime.ir.topology import Subtopology
from headwater.runtime.log.commit.descriptions import ExternalTopic
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.commit.records import RewriteRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import FullyRefreshedError
from headwater.runtime.log.log import Log, rewritten_file_name
from headwater.runtime.log.ranges import Fetched, LogRange, Rewritten
from headwater.runtime.log.state import LogState
from headwater.runtime.placing.place import Client
from headwater.runtime.query.stores import StoreQuery
from headwater.runtime.query.topics import TopicReader
from headwater.runtime.restore.links import LocalLink, StateLink
from headwater.runtime.restore.requests import StateRequest, StateResponse
from headwater.runtime.state.lmdb.store import LmdbStore
from headwater.runtime.tasks.measured import TaskOutcome
from headwater.runtime.tasks.plan import EpochPlan
from headwater.tests.runtime.local.local_application import APPLICATION, PROJECT, LocalApplication
from headwater.tests.runtime.local.summing import (
    PARTITIONS,
    RECORDS,
    SUMS,
    TOTALS,
    WHOLE_SUMS,
    WORDS,
    fed,
    last_sums,
    summed,
)
from headwater.tests.runtime.local.test_global_loading import ALL_NAMED, cities, looked_up, with_cities
from headwater.tests.runtime.local.test_rebalance import Story

Make = Callable[..., LocalApplication]
SEEDS = f"{PROJECT}-seed"


def merge(log: Log, application: str) -> int:
    """Put one file in the place of all that there are of a topic, for each topic, and remove these; how many went."""
    state = LogState.load(log.commits(application))
    lanes: defaultdict[str, dict[tuple[int, int], list[LogRange]]] = defaultdict(dict)
    for segment in state.segments():
        lanes[segment.topic].setdefault((segment.partition, segment.lane), []).append(segment.range())
    written = []
    for topic, ranges in lanes.items():
        name = rewritten_file_name(state.incarnation, state.generation, uuid.uuid4().hex)
        parts = [_merged(log, *lane, each) for lane, each in ranges.items()]
        written += log.write_rewritten(application, topic, name, parts)
    state.commit(RewriteRecord(state.generation, 0, tuple(written), state.incarnation))
    for path in state.replaced:
        log.remove(path)
    return len(state.replaced)


def _merged(log: Log, partition: int, lane: int, ranges: Sequence[LogRange]) -> Rewritten:
    found = [each for within in ranges for each in log.read(within)]
    first, last = ranges[0], ranges[-1]
    return Rewritten(
        partition,
        lane,
        first.start,
        last.end,
        first.start_offset,
        last.end_offset,
        pa.Table.from_batches([each.records for each in found]),
        np.concatenate([each.positions for each in found]),
        np.concatenate([each.offsets for each in found]),
    )


class Merging(LocalCluster):
    """Epochs and requests before which files are replaced. `merged`: how many went, of each application."""

    def __init__(
        self, app: LocalApplication, applications: Sequence[str], epochs: Sequence[int], what: str = ""
    ) -> None:
        super().__init__(expressions=app.expressions)
        self._app = app
        self._applications = applications
        self._epochs = epochs
        self._what = what
        self.merged: dict[str, int] = {}

    def replace_files(self) -> None:
        self.merged.update({each: merge(self._app.log, each) for each in self._applications})

    def job(self, part: Subtopology, client: Client, application: str) -> EpochJob:
        cluster = self

        class Job(LocalJob):
            def run(self, plan: EpochPlan) -> tuple[TaskOutcome, ...]:
                if plan.epoch in cluster._epochs:
                    cluster.replace_files()
                return super().run(plan)

        return Job(part, client, self._expressions)

    def link(self, client: Client, application: str) -> StateLink:
        cluster = self

        class Link(LocalLink):
            def send(self, requests: Sequence[StateRequest]) -> list[StateResponse]:
                if not cluster.merged and any(each.what == cluster._what for each in requests):
                    cluster.replace_files()
                return super().send(requests)

        return Link()


def troubles(story: Story) -> list[str]:
    """What was told that is a trouble."""
    return [event.text for event in story.events if isinstance(event, TaskFailed | TaskBeginsAgain | StoreDamaged)]


@pytest.mark.parametrize("applications", [[SEEDS], [APPLICATION], [SEEDS, APPLICATION]])
def test_epoch_whose_files_were_replaced_since_it_was_planned_is_planned_again(
    application: Make, applications: list[str]
) -> None:
    app = fed(fed(application(summed())))
    cluster, story = Merging(app, applications, [3, 6]), Story()
    result = app.attempt(app.settings(max_records=5), cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    assert all(cluster.merged.values())
    assert troubles(story) == []
    assert len(app.read(SUMS)) == 2 * RECORDS * PARTITIONS
    assert last_sums(app) == {key: (2 * n, 2 * s) for key, (n, s) in WHOLE_SUMS.items()}


def test_file_that_is_listed_and_missing_ends_the_task_and_is_named(application: Make) -> None:
    app = fed(application(summed()))
    (lost,) = {file.path for file in app.log.files(SEEDS) if "s-2" in file.path}
    app.log.remove(lost)
    result = app.attempt()
    assert result.status == "failed"
    assert lost in (result.error or "")
    assert "words, partition 2, offsets 0 to 29, cannot be read" in (result.error or "")
    assert {key: sums for key, sums in WHOLE_SUMS.items() if key != "k2"} == last_sums(app)


@pytest.mark.usefixtures("short_slices")
def test_restore_whose_files_were_replaced_since_it_was_planned_is_planned_again(application: Make) -> None:
    app = fed(application(summed()))
    app.run(max_records=3)
    fed(app)
    cluster, story = Merging(app, [APPLICATION], [], "restore"), Story()
    result = app.attempt(app.settings(state="elsewhere"), cluster, story)
    assert (result.status, result.error, result.restored) == ("caught_up", None, PARTITIONS)
    assert cluster.merged[APPLICATION] > 0
    assert troubles(story) == []
    assert last_sums(app) == {key: (2 * n, 2 * s) for key, (n, s) in WHOLE_SUMS.items()}


@pytest.mark.parametrize(("epochs", "what"), [([], "load"), ([2, 4], "")])
def test_global_table_whose_files_were_replaced_since_it_was_planned_is_planned_again(
    application: Make, epochs: list[int], what: str
) -> None:
    app = with_cities(application(looked_up()))
    cluster, story = Merging(app, [SEEDS], epochs, what), Story()
    result = app.attempt(app.settings(max_records=10), cluster, story)
    assert (result.status, result.error) == ("caught_up", None)
    assert cluster.merged[SEEDS] > 0
    assert troubles(story) == []
    assert cities(app) == ALL_NAMED


class MergedWhileRead(EmbeddedLog):
    """A log whose files are replaced after some records were read of them."""

    def __init__(self, log: EmbeddedLog, application: str, after: int) -> None:
        super().__init__(log.root)
        self._application = application
        self.left = after

    def read(self, within: LogRange, start: int | None = None, columns: Any = None) -> Iterator[Fetched]:
        self.left -= 1
        if self.left == 0:
            assert merge(EmbeddedLog(self.root), self._application)
        return super().read(within, start, columns)


@pytest.mark.parametrize("after", [1, 5])
def test_records_and_rows_are_read_on_where_their_files_were_replaced_meanwhile(application: Make, after: int) -> None:
    app = fed(application(summed()))
    app.run(max_records=3)
    assert isinstance(app.log, EmbeddedLog)
    log = MergedWhileRead(app.log, APPLICATION, after)
    read = [(each.partition, each.offset, each.value["n"]) for each in TopicReader(log, APPLICATION, SUMS).read()]
    assert sorted(read) == [(part, n, n + 1) for part in range(PARTITIONS) for n in range(RECORDS)]
    app.run()
    fed(app).run(max_records=3)
    log = MergedWhileRead(app.log, APPLICATION, after)
    query = StoreQuery(APPLICATION, "sums", TOTALS, log, None, LmdbStore)
    rows = {row.key["k"]: (row.value["n"], row.value["s"]) for row in query.rows()}
    assert log.left <= 0
    assert rows == {key: (2 * n, 2 * s) for key, (n, s) in WHOLE_SUMS.items()}


def test_records_of_a_topic_that_begins_again_are_not_mixed_with_those_that_were_read_before(application: Make) -> None:
    app = application(summed())
    state = LogState.load(app.log.commits(SEEDS))
    declared = ExternalTopic.from_topic(WORDS)
    for number in range(2):
        app.append(WORDS, [(("k",), (number,), number)], 0)
    state.refresh()
    reading = TopicReader(app.log, SEEDS, WORDS).batches()
    assert next(reading)[0] == 0
    before = state.paths()
    app.append(WORDS, [(("new",), (number,), number) for number in range(9)], 1)
    state.refresh()
    state.commit(AppendRecord(0, (), topic=declared, replace=True))
    for path in before:
        app.log.remove(path)
    with pytest.raises(FullyRefreshedError, match="words was fully refreshed"):
        list(reading)
