"""Records that are put into other partitions lie as if they had been fed there, in the order in which they were fed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.runtime.ingest.append import append, appended_records
from headwater.runtime.ingest.repartition import (
    DeletionsWithoutKeyError,
    RecordsGoneMeanwhileError,
    TopicMovedMeanwhileError,
    repartition,
)
from headwater.runtime.ingest.seeds import SeedSpec, seed
from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.cleaning.cleaner import clean_completely
from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.cleaning.deletions import Policy
from headwater.runtime.log.commit.descriptions import ExternalTopic
from headwater.runtime.log.commit.external_records import AppendRecord, Redriven
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import CommitFormatError, TopicChangedError
from headwater.runtime.log.inspection.verification import Verification
from headwater.runtime.log.state import LogState
from headwater.runtime.log.state_parts import parts as fed_marks
from headwater.runtime.query.topics import TopicReader

APPLICATION = "demo-seed"
TOPIC = Topic("t", 4, "k string", "x bigint")
PLAIN = Topic("t", 4, "", "x bigint")


def row(key: str | None, time: int, x: int | None, **headers: str) -> dict[str, Any]:
    key_ = None if key is None else {"k": key}
    return {"timestamp": time, "key": key_, "value": None if x is None else {"x": x}, "headers": headers}


def lying(log: EmbeddedLog, topic: Topic) -> list[Any]:
    """All records by partition and offset, with all that they have."""
    reader = TopicReader(log, APPLICATION, topic)
    found = [
        (each.partition, each.offset, each.timestamp, each.key, each.value, each.headers) for each in reader.read()
    ]
    return sorted(found, key=lambda each: each[:2])


def fresh(path: Path, topic: Topic, *appends: list[dict[str, Any]]) -> list[Any]:
    other = EmbeddedLog(path / "fresh")
    for rows in appends:
        append(other, APPLICATION, topic, rows)
    return lying(other, topic)


def state(log: EmbeddedLog) -> LogState:
    return LogState.load(log.commits(APPLICATION))


def test_appended_records_lie_as_if_they_had_been_appended_there(log, tmp_path):
    first = [row(f"k{n % 7}", 100 + n, n, source="a") for n in range(50)]
    late = [row(f"k{n % 5}", n, None if n % 3 == 0 else n) for n in range(30)]
    other = [row(f"k{n}", 50 + n, n) for n in range(20)]
    for rows in (first, late, other):
        append(log, APPLICATION, TOPIC, rows)
    for count in (7, 1, 4):
        topic = replace(TOPIC, partitions=count)
        (moved,) = repartition(log, APPLICATION, [topic], whole={"t"})
        assert (moved.records, moved.topic) == (100, topic)
        assert lying(log, topic) == fresh(tmp_path / str(count), topic, first, late, other)
    assert [each.damages for each in Verification(log).run()] == [()]


def test_records_without_key_go_round_robin_as_they_were_appended(log, tmp_path):
    appends = [[{"x": 10 * number + n} for n in range(count)] for number, count in enumerate((9, 2, 5))]
    for rows in appends:
        append(log, APPLICATION, PLAIN, rows, timestamps=[7 * each["x"] % 13 for each in rows])
    topic = replace(PLAIN, partitions=3)
    repartition(log, APPLICATION, [topic])
    values = [[found[4]["x"] for found in lying(log, topic) if found[0] == number] for number in range(3)]
    expected = [[each["x"] for rows in appends for n, each in enumerate(rows) if n % 3 == p] for p in range(3)]
    assert values == expected


ROW = st.tuples(st.sampled_from(["a", "b", "c", "d", "e", "f"]), st.integers(0, 20))


@settings(max_examples=settings.default.max_examples * 2 // 3)
@given(st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=2, max_size=4), st.integers(1, 6), st.integers(1, 6))
def test_random_appends_keep_the_order_of_commits_and_of_keys(tmp_path_factory, appends, before, after):
    path = tmp_path_factory.mktemp("random")
    log, was, now = EmbeddedLog(path / "log"), replace(TOPIC, partitions=before), replace(TOPIC, partitions=after)
    numbered = [
        [row(key, time, 100 * number + n) for n, (key, time) in enumerate(rows)] for number, rows in enumerate(appends)
    ]
    for rows in numbered:
        append(log, APPLICATION, was, rows)
    if before == after:
        return
    repartition(log, APPLICATION, [now])
    found, expected = lying(log, now), fresh(path, now, *numbered)

    def by(kind: Callable[[Any], Any], records: list[Any]) -> dict[Any, list[int]]:
        there: dict[Any, list[int]] = {}
        for each in records:
            there.setdefault(kind(each), []).append(each[4]["x"])
        return there

    for kind in (lambda each: each[3]["k"], lambda each: each[0]):
        assert {k: sorted(v) for k, v in by(kind, found).items()} == {
            k: sorted(v) for k, v in by(kind, expected).items()
        }
    assert by(lambda each: each[3]["k"], found) == by(lambda each: each[3]["k"], expected)
    commits = [[each // 100 for each in xs] for xs in by(lambda each: each[0], found).values()]
    assert commits == [sorted(each) for each in commits]
    sorted_appends = [sorted(rows, key=lambda each: (each["timestamp"], each["key"]["k"])) for rows in numbered]
    if sorted_appends == numbered and all(len({r["timestamp"] for r in rows}) == len(rows) for rows in numbered):
        assert found == expected


def test_merged_segments_and_folded_commits_keep_the_order_of_commits(log, tmp_path):
    appends = [[row(f"k{n}", 1000 - 10 * number + n, number) for n in range(6)] for number in range(16)]
    for rows in appends:
        append(log, APPLICATION, TOPIC, rows)
    clean_completely(log, APPLICATION, {"t": Policy("delete")}, limits=Limits(), delay_ms=0)
    commits = log.commits(APPLICATION)
    folded = state(log)
    commits.save_snapshot(folded.number, commits.identity(folded.number), [folded.snapshot()])
    topic = replace(TOPIC, partitions=3)
    repartition(log, APPLICATION, [topic])
    assert lying(log, topic) == fresh(tmp_path, topic, *appends)


def test_thinned_marks_keep_the_order_of_commits_that_are_far_apart(log, monkeypatch):
    monkeypatch.setattr(fed_marks, "MOST_NUMBERS", 8)
    for number in range(18):
        append(log, APPLICATION, TOPIC, [row(f"k{n}", 1000 - number, number) for n in range(9)])
    marks = state(log).marks["t"]
    assert len(marks) <= 4
    assert sum(marks[-1]) == 162
    topic = replace(TOPIC, partitions=2)
    repartition(log, APPLICATION, [topic])
    found = [each[4]["x"] for each in lying(log, topic) if each[0] == 0]
    assert max(found[:16]) < min(found[-16:])


def test_seed_stays_known_between_records_appended_before_and_behind_it(log, tmp_path):
    append(log, APPLICATION, TOPIC, [row("a", 1, 1), row("b", 2, 2)])
    (tmp_path / "t.csv").write_text("k,x\n" + "".join(f"k{n},{n}\n" for n in range(20)))
    spec = SeedSpec("t.csv")
    seed(log, APPLICATION, TOPIC, spec, tmp_path)
    append(log, APPLICATION, TOPIC, [row("c", 3, 3)])
    topic = replace(TOPIC, partitions=7)
    repartition(log, APPLICATION, [topic])
    assert appended_records(state(log), "t") == 3
    assert len(lying(log, topic)) == 23
    (tmp_path / "t.csv").write_text("k,x\nnew,1\n")
    result = seed(log, APPLICATION, topic, spec, tmp_path, full_refresh=True)
    assert (result.outcome, result.records, result.appended) == ("replaced", 1, 3)
    assert sorted(each[3]["k"] for each in lying(log, topic)) == ["a", "b", "c", "new"]


def test_other_key_is_made_of_the_columns_there_and_the_old_one_stays(log):
    was = Topic("t", 4, "carrier string", "flight int, delay double")
    rows = [
        {"carrier": c, "flight": n, "delay": d} for n, (c, d) in enumerate([("UA", 1.0), ("AA", -0.0), (None, 0.0)])
    ]
    append(log, APPLICATION, was, rows)
    now = Topic("t", 2, "flight bigint", "carrier string, delay double")
    repartition(log, APPLICATION, [now])
    assert sorted((each[3]["flight"], each[4]["carrier"], each[4]["delay"]) for each in lying(log, now)) == [
        (0, "UA", 1.0), (1, "AA", 0.0), (2, None, 0.0),
    ]  # fmt: skip
    by_delay = Topic("t", 3, "delay double", "flight bigint")
    repartition(log, APPLICATION, [by_delay])
    zeros = {each[0] for each in lying(log, by_delay) if each[3]["delay"] == 0}
    assert len(zeros) == 1
    back = Topic("t", 4, "carrier string", "flight bigint, delay double")
    repartition(log, APPLICATION, [back])
    carriers = [(each[3] and each[3]["carrier"], each[4]["flight"]) for each in lying(log, back)]
    assert sorted(carriers, key=str) == [("AA", 1), ("UA", 0), (None, 2)]


def test_deletion_that_does_not_say_the_new_key_refuses_it_and_leaves_the_topic_whole(log):
    append(log, APPLICATION, TOPIC, [row("a", 1, 1), row("a", 2, None)])
    before, files = lying(log, TOPIC), {each.path for each in log.files(APPLICATION)}
    with pytest.raises(
        DeletionsWithoutKeyError, match="the records of t cannot be moved to the partitions of the key x bigint"
    ):
        repartition(log, APPLICATION, [Topic("t", 4, "x bigint", "k string")])
    assert (lying(log, TOPIC), {each.path for each in log.files(APPLICATION)}) == (before, files)


def test_records_whose_dead_letters_were_put_back_are_still_known(log):
    append(log, APPLICATION, TOPIC, [row(f"k{n}", n, n) for n in range(30)])
    wanted = [each for each in lying(log, TOPIC) if each[4]["x"] in (3, 4, 17)]
    places: dict[int, tuple[tuple[int, int], ...]] = {}
    for partition, offset, *_ in wanted:
        places[partition] = (*places.get(partition, ()), (offset, offset + 1))
    record = AppendRecord(0, (), topic=ExternalTopic.from_topic(TOPIC), retried=Redriven("letters", "i", {}, places))
    state(log).commit(record)
    topic = replace(TOPIC, partitions=3)
    repartition(log, APPLICATION, [topic])
    back = state(log).put_back["t"]
    found = [x[4]["x"] for x in lying(log, topic) if any(a <= x[1] < b for a, b in back.get(x[0], ()))]
    assert sorted(found) == [3, 4, 17]


def test_two_topics_are_switched_with_one_commit(log):
    for name in ("t", "u"):
        append(log, APPLICATION, replace(TOPIC, name=name), [row("a", 1, 1), row("b", 2, 2)])
    repartition(log, APPLICATION, [replace(TOPIC, name=name, partitions=2) for name in ("t", "u")])
    assert state(log).number == 3
    assert [len(lying(log, replace(TOPIC, name=name, partitions=2))) for name in ("t", "u")] == [2, 2]


class _Late:
    """Something that happens once, in the midst of it."""

    def __init__(self, what: Callable[[], object], at: int = 2) -> None:
        self._what, self._left = what, at

    def __call__(self) -> None:
        self._left -= 1
        if not self._left:
            self._what()


def test_records_that_are_appended_meanwhile_go_along(log, tmp_path):
    first, late = [[row(f"k{n}", start + n, n) for n in range(20)] for start in (100, 50)]
    append(log, APPLICATION, TOPIC, first)
    topic = replace(TOPIC, partitions=3)
    going_on = _Late(lambda: append(log, APPLICATION, TOPIC, late))
    (moved,) = repartition(log, APPLICATION, [topic], whole={"t"}, go_on=going_on)
    assert moved.records == 40
    assert lying(log, topic) == fresh(tmp_path, topic, first, late)


def test_topic_that_somebody_else_moves_meanwhile_is_left_to_them(log):
    append(log, APPLICATION, TOPIC, [row("a", 1, 1)])
    other = replace(TOPIC, partitions=2)
    with pytest.raises(TopicMovedMeanwhileError):
        repartition(
            log,
            APPLICATION,
            [replace(TOPIC, partitions=3)],
            go_on=_Late(lambda: repartition(log, APPLICATION, [other])),
        )
    assert [each[3]["k"] for each in lying(log, other)] == ["a"]
    assert len(list(log.files(APPLICATION))) == 2


def test_records_that_go_meanwhile_refuse_it_where_all_are_needed(log):
    append(log, APPLICATION, TOPIC, [row("a", 1, 1)])
    append(log, APPLICATION, TOPIC, [row("a", 10_000, 1)])
    clean_completely(log, APPLICATION, {"t": Policy("delete", 10)}, delay_ms=0)
    with pytest.raises(RecordsGoneMeanwhileError, match="1 records of t were removed"):
        repartition(log, APPLICATION, [replace(TOPIC, partitions=2)], whole={"t"})
    (moved,) = repartition(log, APPLICATION, [replace(TOPIC, partitions=2)])
    assert moved.records == 1


def test_append_of_the_project_of_before_is_refused_after_it(log):
    append(log, APPLICATION, TOPIC, [row("a", 1, 1)])
    repartition(log, APPLICATION, [replace(TOPIC, partitions=2)])
    with pytest.raises(TopicChangedError, match="partitions was 2 and is 4"):
        append(log, APPLICATION, TOPIC, [row("a", 1, 1)])


def test_files_of_before_stay_for_who_reads_them_and_go_then(log):
    append(log, APPLICATION, TOPIC, [row("a", 1, 1)])
    old = {each.path for each in log.files(APPLICATION)}
    repartition(log, APPLICATION, [replace(TOPIC, partitions=2)], delay_ms=600_000)
    assert old <= state(log).retained.at(0)
    clean_completely(log, APPLICATION, {"t": Policy("delete")})
    assert old <= {each.path for each in log.files(APPLICATION)}
    repartition(log, APPLICATION, [replace(TOPIC, partitions=3)], delay_ms=0)
    clean_completely(log, APPLICATION, {"t": Policy("delete")})
    assert len(list(log.files(APPLICATION))) == 2


def test_earlier_version_refuses_the_log_by_the_number_of_its_format(log, monkeypatch):
    append(log, APPLICATION, TOPIC, [row("a", 1, 1)])
    repartition(log, APPLICATION, [replace(TOPIC, partitions=2)])
    monkeypatch.setattr("headwater.runtime.log.commit.encoding.FORMAT", 7)
    with pytest.raises(CommitFormatError, match="format 8"):
        state(log)
