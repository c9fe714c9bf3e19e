"""The log is cleaned while applications run: what comes of it is what comes of a log that keeps everything."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest

from headwater.runtime.driver import upkeep as cleaning
from headwater.runtime.driver.client_events import LogCleaned, RecordsHeldBack, UpkeepFailed
from headwater.runtime.driver.events import Event, Observers
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, Assignment, PluginRef, Store, Topic, Topology
from headwater.runtime.ir.windows import Window
from headwater.runtime.log.cleaning import compaction as parts
from headwater.runtime.log.cleaning.cleaner import Cleaned, Cleaner, clean_completely, clean_round, commit_cleaned
from headwater.runtime.log.cleaning.compaction import Group, Limits, Part, Stay
from headwater.runtime.log.cleaning.deletions import Policy, policies_of
from headwater.runtime.log.cleaning.jobs import RETRY_SECONDS
from headwater.runtime.log.commit.descriptions import ExternalTopic
from headwater.runtime.log.commit.external_records import AppendRecord
from headwater.runtime.log.commit.records import RewriteRecord
from headwater.runtime.log.errors import GenerationError
from headwater.runtime.log.log import Listed, Log
from headwater.runtime.log.state import LogState
from headwater.runtime.query.rows import GlobalQuery
from headwater.runtime.query.topics import TopicReader
from headwater.runtime.records.schema import changelog_topic
from headwater.tests.runtime.local.joining import (
    CITIES,
    KNOWN,
    NAMED,
    NAMES,
    PLACES,
    RECORDS,
    SEEDS,
    SUMS,
    TOTALS,
    WORDS,
    fed,
    found,
    named,
    rows_of,
    summed,
)
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication, part
from headwater.tests.runtime.local.summing import WHOLE_SUMS, last_sums, summed_by_text
from headwater.tests.runtime.local.summing import fed as fed_sums

Make = Callable[..., LocalApplication]


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few segments are worth a merge."""
    monkeypatch.setattr(cleaning, "LIMITS", Limits(fan_out=2))


def segments(app: LocalApplication, topic: str, application: str = APPLICATION) -> list[tuple[int, int]]:
    """Records and positions of each segment of a topic."""
    state = LogState.load(app.log.commits(application))
    return [(each.rows, each.end_position - each.base_position) for each in state.segments() if each.topic == topic]


class Seen:
    """An observer that keeps all events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


def both(application: Make, *parts: object, log: str = "embedded") -> tuple[LocalApplication, LocalApplication]:
    """An application on a log that keeps everything, and one whose log is cleaned."""
    return application(*parts, log=log), application(*parts, log=log, clean=True)


@pytest.mark.parametrize("log", ["sparse", pytest.param("embedded", marks=pytest.mark.soak)])
def test_what_comes_of_a_cleaned_log_is_what_comes_of_one_that_keeps_everything(application: Make, log: str) -> None:
    kept, cleaned = both(application, summed(), named(), log=log)
    for turn in range(2):
        for app in (kept, cleaned):
            app.dropped.clear()
            for _ in range(3):
                fed(app, turn * RECORDS)
            app.run(max_records=12, clients=1 + 2 * turn)
        # Outputs are streams: every record of them stays.
        assert sorted(found(cleaned, NAMED)) == sorted(found(kept, NAMED))
        assert cleaned.dropped == kept.dropped != {}
        for store, name in ((TOTALS, "sums"), (KNOWN, "named")):
            expected = rows_of(kept, store, name)
            assert rows_of(cleaned, store, name) == expected != []
            assert rows_of(cleaned, store, name, None) == expected
        cities = [list(map(repr, GlobalQuery(PLACES, SEEDS, app.log).rows())) for app in (kept, cleaned)]
        assert cities[0] == cities[1] != []
        if turn == 0:
            rmtree(cleaned.path / "state")
    for store in (TOTALS, KNOWN):
        topic = changelog_topic(APPLICATION, store.name)
        less, more = segments(cleaned, topic), segments(kept, topic)
        assert len(less) < len(more) / 5
        assert sum(rows for rows, _ in less) < sum(rows for rows, _ in more) / 3
        ends = LogState.load(cleaned.log.commits(APPLICATION))
        assert sum(span for _, span in less) == sum(ends.lane_ends(topic, n)[n] for n in range(2))
    assert len(segments(cleaned, "words", SEEDS)) < len(segments(kept, "words", SEEDS))
    assert sum(rows for rows, _ in segments(cleaned, "words", SEEDS)) == 2 * 3 * RECORDS * 2


HOURS = Store("hours", 2, "k string", "n bigint", "window", Window(10, 10, 0), aggregates=(Agg("n", "count"),))
COUNTS = Topic("counts", 2, "k string", "n bigint", windowed=True, writer=APPLICATION)


def counted():
    """Records of each key and window."""
    nodes = (Source(WORDS, "f"), Aggregate("f", HOURS), Sink("f", COUNTS))
    return part("counts", 2, ((nodes, {}, {}),), (HOURS,))


def test_rows_of_windows_that_have_expired_go_from_the_changelog_and_the_others_stay(application: Make) -> None:
    kept, cleaned = both(application, counted())
    for app in (kept, cleaned):
        for first in range(0, 400, RECORDS):
            fed(app, first).run(max_records=20)
    expected = rows_of(kept, HOURS, "counts")
    assert rows_of(cleaned, HOURS, "counts") == rows_of(cleaned, HOURS, "counts", None) == expected != []
    rmtree(cleaned.path / "state")
    cleaned.run()
    assert rows_of(cleaned, HOURS, "counts") == expected
    topic = changelog_topic(APPLICATION, HOURS.name)
    left, every = (sum(rows for rows, _ in segments(app, topic)) for app in (cleaned, kept))
    assert left < every / 3


@pytest.mark.usefixtures("short_slices")
@pytest.mark.parametrize("log", ["sparse", pytest.param("embedded", marks=pytest.mark.soak)])
def test_runs_that_are_cut_off_anywhere_lose_nothing_to_cleaning(application: Make, log: str) -> None:
    for seed in range(2):
        app = fed_sums(application(*summed_by_text(), log=log, clean=True))
        assignment = Assignment(PluginRef("sticky"), standby_replicas=1, probing_rebalance_interval_ms=60_000)
        app.topology = replace(app.topology, assignment=assignment)
        app.run_randomly(seed, moving=True)
        assert last_sums(app) == WHOLE_SUMS


def cleaner(app: LocalApplication, policy: Policy, topic: str = "words") -> Cleaner:
    return Cleaner(app.log, {topic: policy}, Limits(fan_out=2))


def clean(app: LocalApplication, policy: Policy, topic: str = "words") -> LogState:
    """What is fed from outside after a round."""
    state = LogState.load(app.log.commits(SEEDS))
    clean_round(cleaner(app, policy, topic), app.log, state)
    return state


def numbers(app: LocalApplication, partition: int = 0) -> list[int | None]:
    return [row["value.x"] for row in app.read(WORDS) if row["partition"] == partition]


def test_application_that_is_stopped_is_cleaned_at_once_and_its_replaced_files_go_after_the_delay(
    application: Make,
) -> None:
    kept, cleaned = application(summed()), application(summed())
    for app in (kept, cleaned):
        for turn in range(3):
            fed(app, turn * RECORDS).run(max_records=7)
    topic = changelog_topic(APPLICATION, TOTALS.name)
    limits, policies = Limits(fan_out=2), policies_of(cleaned.topology)
    first = clean_completely(cleaned.log, APPLICATION, policies, delay_ms=0, limits=limits)
    assert (first.removed > 0, first.waiting, first.after.segments < first.before.segments) == (True, 0, True)
    listed = LogState.load(cleaned.log.commits(APPLICATION)).paths()
    assert {file.path for file in cleaned.log.files(APPLICATION)} == listed
    rows = [rows for rows, _ in segments(cleaned, topic)]
    assert sum(rows) < sum(rows for rows, _ in segments(kept, topic))
    second = clean_completely(cleaned.log, APPLICATION, policies, limits=limits)
    assert (second.before, second.removed) == (second.after, 0)
    rmtree(cleaned.path / "state")
    for app in (kept, cleaned):
        fed(app, 3 * RECORDS).run()
    assert rows_of(cleaned, TOTALS, "sums") == rows_of(kept, TOTALS, "sums") != []


COMPACTED = Policy(key=("key.k",))


@pytest.mark.parametrize("log", ["embedded", "sparse"])
def test_last_record_of_each_key_stays_with_its_offset_and_headers_and_so_do_null_keys(
    application: Make, log: str
) -> None:
    app = application(log=log)
    app.append(WORDS, [(("a",), (1,), 1), (None, (2,), 2), (("b",), (3,), 3)])
    app.append(WORDS, [(("a",), (4,), 4), (("b",), None, 5)], headers=['{"h":"1"}', None])
    app.append(WORDS, [(("c",), (6,), 6), (None, (7,), 7)])
    before = {each.timestamp: each for each in TopicReader(app.log, SEEDS, WORDS).read()}
    clean(app, COMPACTED)
    after = list(TopicReader(app.log, SEEDS, WORDS).read())
    assert [each.timestamp for each in after] == [2, 4, 5, 6, 7]
    assert all(each == before[each.timestamp] for each in after)
    assert [each.offset for each in TopicReader(app.log, SEEDS, WORDS, after[2].offset).read()] == [
        each.offset for each in after[2:]
    ]


def test_records_that_a_reader_has_not_consumed_stay(application: Make) -> None:
    app = application(summed())
    for first in range(0, 4 * RECORDS, RECORDS):
        app.append(WORDS, [(("a",), (x,), x) for x in range(first, first + RECORDS)])
        if first == 0:
            app.run()  # the second half comes after it
    clean(app, COMPACTED)
    clean(app, Policy(retention_ms=1))
    assert numbers(app)[-3 * RECORDS :] == list(range(RECORDS, 4 * RECORDS))
    app.run()
    assert app.read(SUMS)[-1]["value.s"] == sum(range(4 * RECORDS))
    app.append(WORDS, [(("a",), (7,), 4 * RECORDS)])
    app.run()
    clean(app, COMPACTED)
    assert numbers(app) == [7]
    assert app.run().records == 0


def test_topology_of_a_run_that_has_committed_nothing_yet_reads_from_the_first_record(application: Make) -> None:
    app = application(summed())
    (reading,) = app.topology.subtopologies
    compacted = tuple(replace(topic, cleanup="compact") for topic in reading.sources)
    topology = replace(app.topology, subtopologies=(replace(reading, sources=compacted),))

    def run_is_over() -> None:
        fed_topics = cleaning.ExternalTopicsCleaning(
            [topology], replace(app.settings(), clean=True), app.log, Observers()
        )
        fed_topics.finish(threading.Event())

    app.append(WORDS, [(("a",), (x,), x) for x in range(3)])
    app.append(WORDS, [(("a",), (9,), 9)])
    run_is_over()
    assert numbers(app) == [0, 1, 2, 9]
    app.run()
    assert app.read(SUMS)[-1]["value.s"] == sum((0, 1, 2, 9))
    app.append(WORDS, [(("a",), (x,), x) for x in range(10, 14)])
    app.run()
    run_is_over()
    assert numbers(app) == [13]
    # Between the removal of what it has committed and the claim of its next run.
    app.append(WORDS, [(("a",), (14,), 14)])
    app.append(WORDS, [(("a",), (15,), 15)])
    app.log.drop(APPLICATION)
    run_is_over()
    assert numbers(app) == [13, 14, 15]


def test_records_wait_for_a_topology_of_the_project_that_is_not_run_and_has_never_been(application: Make) -> None:
    app = application(summed())
    (reading,) = app.topology.subtopologies
    other = f"{app.topology.project}-other"

    def read_by(topic: Topic) -> Topic:
        return replace(topic, cleanup="delete", retention_ms=1, readers=(APPLICATION, other))

    part = replace(reading, sources=tuple(map(read_by, reading.sources)), sinks=tuple(map(read_by, reading.sinks)))
    declared = replace(app.topology, subtopologies=(part,))

    seen = Seen()

    def run_is_over(topology: Topology) -> None:
        settings = replace(app.settings(), clean=True)
        cleaning.ExternalTopicsCleaning([topology], settings, app.log, seen).finish(threading.Event())
        clean_completely(app.log, APPLICATION, policies_of(topology), topologies=[topology])

    for x in range(0, 40, 10):
        app.append(WORDS, [(("a",), (x,), x)])
    app.run(max_records=1)
    written = sum(rows for rows, _ in segments(app, SUMS.name))
    run_is_over(declared)
    assert numbers(app) == [0, 10, 20, 30]
    assert sum(rows for rows, _ in segments(app, SUMS.name)) == written
    (told,) = seen.of(RecordsHeldBack)
    assert (told.application, told.topic, told.reader, told.records, told.since) == (SEEDS, "words", other, 3, None)
    # The other one reads them no more, by its declaration.
    alone = replace(part, sources=tuple(replace(topic, readers=(APPLICATION,)) for topic in part.sources))
    run_is_over(replace(app.topology, subtopologies=(alone,)))
    assert numbers(app) == [30]
    assert len(seen.of(RecordsHeldBack)) == 1
    assert sum(rows for rows, _ in segments(app, SUMS.name)) == written


def test_topology_of_a_run_counts_as_a_reader_of_what_another_one_writes(application: Make) -> None:
    app = fed(application(summed()))
    app.run(max_records=5)
    state = LogState.load(app.log.commits(APPLICATION))
    count = sum(rows for rows, _ in segments(app, SUMS.name))
    (writing,) = app.topology.subtopologies
    reader = replace(app.topology, name="reader", subtopologies=(replace(writing, sources=(SUMS,)),))
    policies = {SUMS.name: COMPACTED}
    clean_round(Cleaner(app.log, policies, Limits(fan_out=2), [app.topology, reader]), app.log, state)
    assert sum(rows for rows, _ in segments(app, SUMS.name)) == count
    clean_round(Cleaner(app.log, policies, Limits(fan_out=1), [app.topology]), app.log, state)
    assert sum(rows for rows, _ in segments(app, SUMS.name)) < count


def test_records_expire_by_the_newest_of_their_partition(application: Make) -> None:
    app = application()
    for time in range(0, 100, 10):
        app.append(WORDS, [(("a",), (time + n,), time + n) for n in range(10)])
    state = clean(app, Policy(retention_ms=35))
    assert numbers(app) == list(range(60, 100))
    assert (state.end("words", 0), state.ranges("words", 0)[0].start) == (100, 0)
    app.append(WORDS, [(("a",), (1000,), 1000)])
    clean(app, Policy(retention_ms=35))
    assert numbers(app) == [1000]


def test_topic_that_a_global_table_holds_does_not_expire(application: Make) -> None:
    app = application(named())
    for time in (0, 10, 1000):
        app.append(CITIES, [((f"0-{time}",), ("city",), time)])
    app.run()
    clean(app, Policy(retention_ms=1), CITIES.name)
    assert len(app.read(CITIES)) == 3


def test_round_is_lost_where_the_topic_begins_again_with_records_at_the_same_places(application: Make) -> None:
    app = application()
    for x in range(4):
        app.append(WORDS, [(("a",), (x,), x)])
    state = LogState.load(app.log.commits(SEEDS))
    cleaned = cleaner(app, COMPACTED).round(state)
    for x in range(4):
        table = pa.table(
            {"key.k": ["a"], "value.x": [100 + x], "_kind": pa.array([1], pa.int8()), "_timestamp": [x], "_order": [x]}
        )
        written = app.log.write(SEEDS, "words", f"again-{x}", table, 0, 0)
        topic = ExternalTopic(name="words", partitions=2, key="k string", value="x bigint")
        state.commit(AppendRecord(0, written, topic=topic, replace=x == 0))
    committed = commit_cleaned(cleaned, app.log, state, lambda _: pytest.fail("it fits no more"))
    assert committed == ()
    assert numbers(app) == [100, 101, 102, 103]
    assert not set(cleaned.files) & {file.path for file in app.log.files(SEEDS)}


def test_files_stay_if_a_commit_is_made_and_yet_raises(application: Make) -> None:
    app = application()
    for x in range(4):
        app.append(WORDS, [(("a",), (x,), x)])
    state = LogState.load(app.log.commits(SEEDS))
    cleaned = cleaner(app, COMPACTED).round(state)

    def commit(segments: tuple[Listed, ...]) -> None:
        state.commit(RewriteRecord(0, 0, segments))
        raise OSError("the directory cannot be brought to the disk")

    with pytest.raises(OSError, match="cannot be brought"):
        commit_cleaned(cleaned, app.log, state, commit)
    assert numbers(app) == [3]


def test_round_of_before_another_driver_has_claimed_the_application_is_refused(
    application: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = fed(application(summed()))
    app.run(max_records=5)
    state = LogState.load(app.log.commits(APPLICATION))
    cleaner = Cleaner(app.log, policies_of(app.topology), Limits(fan_out=2))
    round_of = cleaner.round

    def claimed(*arguments: Any) -> Cleaned:
        cleaned = round_of(*arguments)
        assert cleaned.exchanges
        app.run()
        return cleaned

    monkeypatch.setattr(cleaner, "round", claimed)
    with pytest.raises(GenerationError):
        clean_round(cleaner, app.log, state)
    assert len(found(app, SUMS)) > 0  # all that is listed is there


def test_damaged_segment_is_told_once_and_costs_no_epoch(application: Make) -> None:
    app = application(summed(), clean=True)
    for x in range(4):
        app.append(NAMES, [(("a",), (f"{x}",), x)])
    (first, *_) = sorted((app.path / "log" / "segments" / SEEDS / "names").iterdir())
    first.write_bytes(first.read_bytes()[:-200] + b"x" * 200)
    fed_words(app)
    seen = Seen()
    result = app.attempt(app.settings(max_records=5), observer=seen)
    assert (result.status, result.records) == ("caught_up", 2 * RECORDS)
    assert len(app.read(SUMS)) > 0
    (told,) = seen.of(UpkeepFailed)
    assert (told.application, told.work, "names" in told.cause) == (SEEDS, "clean", True)
    assert seen.of(LogCleaned)


def test_damaged_segment_is_not_read_again_until_a_while_has_passed_and_its_lane_is_cleaned_beside_it(
    application: Make,
) -> None:
    app = application()
    for x in range(4):
        app.append(WORDS, [(("a",), (x,), x)])
    (first, *_) = (app.path / "log" / segment.path for segment in LogState.load(app.log.commits(SEEDS)).segments())
    whole = first.read_bytes()
    first.write_bytes(whole[:-200] + b"x" * 200)
    state, now = LogState.load(app.log.commits(SEEDS)), [0.0]
    cleaner = Cleaner(app.log, {}, Limits(fan_out=2), seconds=lambda: now[0])
    (damage,) = clean_round(cleaner, app.log, state)[0].damage
    first.write_bytes(whole)  # who looks at it finds nothing wrong
    cleaned, committed = clean_round(cleaner, app.log, state)
    assert (cleaned.damage, committed) == ((damage,), ())
    now[0] += RETRY_SECONDS
    cleaned, committed = clean_round(cleaner, app.log, state)
    assert (cleaned.damage, segments(app, "words", SEEDS)) == ((), [(4, 4)])


def test_what_nobody_has_thought_of_in_one_lane_holds_no_other_up(
    application: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = application()
    for x in range(4):
        app.append(NAMES, [(("a",), (f"{x}",), x)])
        app.append(WORDS, [(("a",), (x,), x)])
        app.append(WORDS, [(("a",), (x,), x)], 1)

    def remaining(log: Log, group: Group, stay: Stay) -> Iterator[Part]:
        if group[0].topic == "words" and group[0].partition == 0:
            yield from islice(parts.remaining(log, group, stay), 1)
            raise pa.ArrowInvalid("columns differ")
        yield from parts.remaining(log, group, stay)

    monkeypatch.setattr("headwater.runtime.log.cleaning.cleaner.remaining", remaining)
    state = LogState.load(app.log.commits(SEEDS))
    cleaned, _ = clean_round(Cleaner(app.log, {}, Limits(fan_out=2)), app.log, state)
    (told,) = cleaned.damage
    assert told.message == "words, partition 0, lane 0, cannot be cleaned: ArrowInvalid: columns differ"
    assert segments(app, "names", SEEDS) == [(4, 4)]
    assert sorted(segments(app, "words", SEEDS)) == [(1, 1)] * 4 + [(4, 4)]
    assert numbers(app) == numbers(app, 1) == [0, 1, 2, 3]


def test_segments_that_would_have_too_many_bytes_together_are_not_merged(
    application: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = application()
    for x in range(8):
        app.append(NAMES, [(("a",), ("x" * 100,), x)])
    monkeypatch.setattr(parts, "MOST_BYTES", 500)
    clean_round(Cleaner(app.log, {}, Limits(fan_out=2)), app.log, LogState.load(app.log.commits(SEEDS)))
    found = segments(app, "names", SEEDS)
    assert sum(rows for rows, _ in found) == 8
    assert 1 < max(rows for rows, _ in found) < 5


def fed_words(app: LocalApplication) -> None:
    for partition in range(2):
        app.append(WORDS, [((f"{partition}-{x % 5}",), (x,), x) for x in range(RECORDS)], partition)
