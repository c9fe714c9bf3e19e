"""Dead letters put back into their topic, changed or not: once each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import pytest

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ingest.append import write_incoming
from headwater.runtime.ingest.retry import LetterError, NoLettersError, check_letters, retry
from headwater.runtime.ir.topology import Subtopology, Topic, Topology, dead_letter_topic
from headwater.runtime.log.errors import SeedError
from headwater.runtime.log.log import Log
from headwater.runtime.log.placed_log import PlacedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.progress.resets import refresh_fully
from headwater.runtime.query.topics import TopicReader
from headwater.runtime.records.record_json import Record
from headwater.tests.runtime.local.local_application import PROJECT, LocalApplication, assert_caught_up, part
from headwater.tests.runtime.local.summing import OTHERS, TOTALS, WORDS
from headwater.tests.runtime.local.test_failing_records import LETTERS, MOST, summed, sums

SEEDS = "test-seed"


@pytest.fixture
def app(tmp_path) -> LocalApplication:
    """Keys that had their sum of 2**63 - 1 already when another number came."""
    app = LocalApplication(tmp_path, [summed("dead_letter")])
    app.append(WORDS, [((key,), (x,), n) for n, (key, x) in enumerate([("a", MOST), ("a", 1), ("b", MOST), ("b", 2)])])
    app.run()
    return app


def letters(app: LocalApplication) -> list[dict]:
    return [asdict(each) for each in TopicReader(app.log, LETTERS.writer, LETTERS).read()]


def put_back(app: LocalApplication, given=None):
    held = list(TopicReader(app.log, LETTERS.writer, LETTERS).read())
    return retry(app.log, SEEDS, LETTERS, held, WORDS, given)


def test_letters_are_put_back_as_they_came_and_once(app) -> None:
    first, second = put_back(app), put_back(app)
    assert (first.records, first.already) == (2, 0)
    assert (second.records, second.already, second.commit) == (0, 2, 0)
    rows = app.read(WORDS)
    assert [(row["key.k"], row["value.x"], row["_timestamp"]) for row in rows[4:]] in (
        [("a", 1, 1), ("b", 2, 3)],
        [("b", 2, 3), ("a", 1, 1)],
    )
    app.run()  # they fail again, and are other letters then
    again = len(letters(app)) - 2
    assert again
    assert put_back(app).records == again


def test_letters_of_a_topic_whose_name_ends_alike_are_others(app) -> None:
    big = replace(WORDS, name=f"big_{WORDS.name}")
    name = LETTERS.name.replace(WORDS.name, big.name)
    others = dead_letter_topic(name, big, LETTERS.writer)
    held = list(TopicReader(app.log, LETTERS.writer, LETTERS).read())
    assert retry(app.log, SEEDS, others, held, big).records == 2
    assert put_back(app).records == 2


def test_letters_that_were_changed_are_what_they_were_changed_to(app) -> None:
    given = [each for each in letters(app) if '"a"' in each["value"]["key"]]
    given[0]["value"] |= {"value": json.dumps({"x": -5}), "timestamp": 77}
    assert put_back(app, given).records == 1
    app.run()
    assert sums(app)[:2] == [("a", 1, MOST), ("a", 2, MOST - 5)]
    assert put_back(app).records == 1  # the other one


def test_letters_that_are_written_again_are_not_put_back_a_second_time(app) -> None:
    assert put_back(app, letters(app)[:1]).records == 1
    before = LogState.load(app.log.commits(LETTERS.writer)).incarnation
    refresh_fully(app.log, app.path / "state", [LETTERS.writer])
    app.run()
    assert LogState.load(app.log.commits(LETTERS.writer)).incarnation != before
    result = put_back(app)
    assert (result.records, result.already) == (len(letters(app)) - 1, 1)


@dataclass(frozen=True)
class Renamed:
    """A topology with letters of a topic that is fed, and of one between its steps. `step`: the name of the latter."""

    name: str
    step: str

    def letters(self, of: str) -> Topic:
        return dead_letter_topic(f"{self.name}_{of}_dead_letter", WORDS, f"test-{self.name}")

    @property
    def between(self) -> Topic:
        return self.letters(f"{self.step}-repartition")

    def topology(self, was: Mapping[str, tuple[str, ...]]) -> Topology:
        application = f"test-{self.name}"
        rekeyed = Topic(f"{application}-{self.step}-repartition", 4, "k string", "x bigint", writer=application)
        rekeyed = replace(rekeyed, on_error="dead_letter")
        parts = (
            self._summed("sums", replace(WORDS, on_error="dead_letter"), self.letters("words")),
            part(self.step, 4, (((Source(OTHERS, ("f",)), Sink("f", rekeyed, "repartition")), {}, {}),)).subtopology,
            self._summed("between", rekeyed, self.between),
        )
        numbered = tuple(replace(each, number=number) for number, each in enumerate(parts))
        return Topology(PROJECT, self.name, "1", "hash", numbered, was=was)

    def _summed(self, name: str, source: Topic, letters: Topic) -> Subtopology:
        store = replace(TOTALS, name=name)
        made = part(name, 4, (((Source(source, "f", dead_letter=letters), Aggregate("f", store)), {}, {}),), (store,))
        return replace(made.subtopology, sinks=(letters,), dead_letters={source.name: letters})

    def held(self, log: Log, topic: Topic) -> list[Record]:
        return list(TopicReader(log, f"test-{self.name}", topic).read())

    def put_back(self, log: Log, most: int | None = None) -> tuple[int, int]:
        held = self.held(log, self.letters("words"))
        given = None if most is None else [asdict(each) for each in held[:most]]
        result = retry(log, SEEDS, self.letters("words"), held, WORDS, given)
        return result.records, result.already


def test_letters_of_a_renamed_topology_and_step_are_in_the_topics_of_now_also_before_it_runs(tmp_path) -> None:
    app = LocalApplication(tmp_path, [])
    for topic in (WORDS, OTHERS):
        app.append(topic, [((key,), (x,), 0) for key, x in [("a", MOST), ("a", 1), ("b", MOST), ("b", 2)]])
    one, two = Renamed("one", "rekey"), Renamed("two", "grouped")
    assert_caught_up(run_topologies([one.topology({})], app.settings(), LocalCluster(), until_caught_up=True))
    assert (len(one.held(app.log, one.letters("words"))), len(one.held(app.log, one.between))) == (2, 2)
    assert one.put_back(app.log, 1) == (1, 0)

    former = {"test-two": ("test-one",)}
    planned = PlacedLog(app.log, was=former)
    assert two.put_back(planned) == (1, 1)

    settings = replace(app.settings(), former_names=former)
    renamed = two.topology({"grouped": ("rekey",)})
    assert_caught_up(run_topologies([renamed], settings, LocalCluster(), until_caught_up=True))
    log = PlacedLog(app.log)
    assert len(two.held(log, two.letters("words"))) == 3  # one of the records has failed again
    assert len(two.held(log, two.between)) == 2
    assert (two.put_back(log), two.put_back(log)) == ((1, 2), (0, 3))
    state = LogState.load(log.commits("test-two"))
    assert not [each.topic for each in state.segments() if "one" in each.topic or "rekey" in each.topic]


def test_retries_of_several_at_the_same_time_put_each_letter_back_once(app, monkeypatch) -> None:
    from headwater.runtime.ingest import retry as module

    def overtaken(*arguments):
        monkeypatch.setattr(module, "write_incoming", write_incoming)
        assert put_back(app).records == 2
        return write_incoming(*arguments)

    monkeypatch.setattr(module, "write_incoming", overtaken)
    result = put_back(app)
    assert (result.records, result.already) == (0, 2)
    assert len(app.read(WORDS)) == 6


def test_retry_that_was_killed_before_its_commit_has_put_nothing_back(app, monkeypatch) -> None:
    from headwater.runtime.ingest import retry as module

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "commit_append", killed)
    with pytest.raises(KeyboardInterrupt):
        put_back(app)
    monkeypatch.undo()
    assert len(app.read(WORDS)) == 4
    assert put_back(app).records == 2


def test_snapshot_of_the_log_knows_what_was_put_back(app) -> None:
    put_back(app)
    state = LogState.load(app.log.commits(SEEDS))
    again = LogState(app.log.commits(SEEDS))
    from headwater.runtime.log.state_parts.parts import Snapshot

    found = Snapshot.decode(state.snapshot())
    assert found is not None
    again.restore(found)
    assert again.retried == state.retried != {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"offset": 99}, "record 1: t_words_dead_letter has no letter"),
        ({"value": {"value": "{"}}, "its value is not JSON"),
        ({"value": {"timestamp": "soon"}}, "its timestamp is no time"),
    ],
)
def test_letters_that_cannot_be_put_back_are_refused_with_their_place(app, change, said) -> None:
    with pytest.raises(LetterError, match=said):
        put_back(app, [{**letters(app)[0], **change}])
    assert len(app.read(WORDS)) == 4


def test_value_that_the_topic_cannot_hold_is_refused_with_the_place_of_the_letter(app) -> None:
    letter = letters(app)[0]
    place = f"t_words_dead_letter\\[{letter['partition']}\\]@{letter['offset']}"
    with pytest.raises(SeedError, match=place):
        put_back(app, [{**letter, "value": {"value": {"x": "many"}}}])


def test_other_topics_are_no_topics_of_dead_letters() -> None:
    with pytest.raises(NoLettersError):
        check_letters(WORDS)
