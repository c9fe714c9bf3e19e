"""Seeds that change: what is the same goes on, what is not takes the place of the seed, and appended records stay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.runtime.ingest import seeds
from headwater.runtime.ingest.append import AppendedOtherwiseError, AppendedUnknownError, append, appended_records
from headwater.runtime.ingest.seeds import SeedResult, SeedSpec, seed
from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.cleaning.cleaner import clean_completely
from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.cleaning.deletions import Policy
from headwater.runtime.log.commit.external_records import AppendRecord, SeedSource
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.errors import SeedChangedError, TopicChangedError
from headwater.runtime.log.state import LogState
from headwater.runtime.records.record_json import Record

APPLICATION = "demo-seed"
SPEC = SeedSpec("airlines.csv")

Plant = Callable[..., SeedResult]
Read = Callable[..., list[Record]]


@pytest.fixture
def plant(log: EmbeddedLog, tmp_path: Path) -> Plant:
    """A function that writes the topic's CSV file and seeds the topic from it."""

    def run(topic: Topic, *lines: str, **options: Any) -> SeedResult:
        (tmp_path / "airlines.csv").write_text("\n".join([*lines, ""]))
        return seed(log, APPLICATION, topic, SPEC, tmp_path, **options)

    return run


FIRST = ("carrier,name", "UA,United", "AA,American", "B6,JetBlue")


def given(key: str, name: str | None, timestamp: int, **rest: Any) -> dict[str, Any]:
    value = None if name is None else {"name": name}
    return {"timestamp": timestamp, "key": {"carrier": key}, "value": value, **rest}


def shown(records: list[Record]) -> list[tuple[Any, ...]]:
    """All but where they lie, in the order of each key."""
    return sorted(
        ((each.timestamp, each.key and each.key["carrier"], each.value, each.headers) for each in records),
        key=lambda each: (str(each[1]), each[0]),
    )


APPENDED = [
    given("DL", "Delta", 5, headers={"from": "a"}),
    given("UA", None, 6),
    given("DL", "Delta Air", 3),
]


@pytest.fixture
def state(log: EmbeddedLog) -> Callable[[], LogState]:
    return lambda: LogState.load(log.commits(APPLICATION))


def test_full_refresh_puts_appended_records_as_they_were_behind_the_new_seed(
    log: EmbeddedLog, plant: Plant, airlines: Topic, read: Read, state: Callable[[], LogState]
) -> None:
    append(log, APPLICATION, airlines, [given("EV", "before any seed", 1)])
    plant(airlines, *FIRST)
    append(log, APPLICATION, airlines, APPENDED[:2])
    append(log, APPLICATION, airlines, APPENDED[2:])
    assert appended_records(state(), "airlines") == 4
    before = shown(read(airlines))

    result = plant(airlines, "carrier,name", "UA,United Airlines", full_refresh=True)

    assert (result.outcome, result.records, result.appended) == ("replaced", 1, 4)
    named = ("UA", {"name": "United Airlines"})
    kept = [each for each in before if each[2] not in [{"name": n} for n in ("United", "American", "JetBlue")]]
    assert shown(read(airlines)) == sorted([(0, *named, {}), *kept], key=lambda each: (str(each[1]), each[0]))
    assert [r.value for r in read(airlines) if r.key == {"carrier": "DL"}] == [{"name": "Delta"}, {"name": "Delta Air"}]
    assert [r.timestamp for r in read(airlines) if r.key == {"carrier": "UA"}] == [0, 6]  # the seed comes first
    again = plant(airlines, *FIRST, full_refresh=True)
    assert (again.records, again.appended, appended_records(state(), "airlines")) == (3, 4, 4)
    assert shown(read(airlines)) == before


@pytest.mark.parametrize("loaded", ["commits", "snapshot"])
def test_appended_records_are_known_after_they_were_merged_with_those_of_the_seed(
    log: EmbeddedLog, plant: Plant, airlines: Topic, read: Read, state: Callable[[], LogState], loaded: str
) -> None:
    plant(airlines, *FIRST)
    append(log, APPLICATION, airlines, APPENDED)
    before = shown(read(airlines))
    clean_completely(log, APPLICATION, {"airlines": Policy()}, limits=Limits(fan_out=2))
    found = state()
    assert max(segment.epochs for segment in found.segments()) > 1
    if loaded == "snapshot":
        commits = log.commits(APPLICATION)
        identity = commits.identity(found.number)
        assert identity is not None
        assert commits.save_snapshot(found.number, found.snapshot(), identity)
        for number in range(1, found.number):
            (log.root / "commits" / APPLICATION / f"{number:012d}.json").unlink()
    assert plant(airlines, *FIRST, full_refresh=True).appended == 3
    assert shown(read(airlines)) == before


def test_record_that_is_appended_while_the_others_are_kept_is_kept_too(
    log: EmbeddedLog, plant: Plant, airlines: Topic, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(airlines, *FIRST)
    append(log, APPLICATION, airlines, APPENDED)
    commit = seeds.commit_append

    def late(*arguments: Any) -> Any:
        append(log, APPLICATION, airlines, [given("WN", "Southwest", 9)])
        return commit(*arguments)

    monkeypatch.setattr(seeds, "commit_append", late)
    assert plant(airlines, *FIRST, full_refresh=True).appended == 4
    assert [each.timestamp for each in read(airlines) if each.key == {"carrier": "WN"}] == [9]
    assert len(read(airlines)) == 7


def test_appended_records_go_where_their_keys_belong_among_other_partitions(
    log: EmbeddedLog, plant: Plant, airlines: Topic, read: Read
) -> None:
    plant(airlines, *FIRST)
    append(log, APPLICATION, airlines, [*APPENDED, {"timestamp": 1, "key": None, "value": {"name": "x"}}])
    before = shown(read(airlines))
    more = replace(airlines, partitions=7)
    plant(more, *FIRST, full_refresh=True)
    found = read(more)
    assert shown(found) == before
    where = {str(record.key): record.partition for record in found if record.key}
    fresh = replace(more, name="fresh")
    append(log, APPLICATION, fresh, APPENDED)
    assert {str(each.key): each.partition for each in read(fresh)}.items() <= where.items()


def test_column_that_appended_records_have_and_the_topic_has_no_more_comes_back_with_its_values(
    log: EmbeddedLog, plant: Plant, airlines: Topic, read: Read
) -> None:
    plant(airlines, *FIRST)
    append(log, APPLICATION, airlines, APPENDED[:1])
    other = replace(airlines, value="country string")
    plant(other, "carrier,country", "UA,us", full_refresh=True)
    both = replace(airlines, value="country string, name string")
    assert sorted(str(each.value) for each in read(both)) == [
        "{'country': 'us', 'name': None}",
        "{'country': None, 'name': 'Delta'}",
    ]
    with pytest.raises(TopicChangedError, match="~ name string -> int"):
        append(log, APPLICATION, replace(airlines, value="name int"), [{"carrier": "x", "name": 1}])


@pytest.mark.parametrize(
    ("change", "said"),
    [({"key": "carrier binary"}, "key: ~ carrier string"), ({"value": "name int"}, "columns: ~ name")],
)
def test_appended_records_that_do_not_fit_are_not_dropped_unless_that_is_wanted(
    log: EmbeddedLog, plant: Plant, airlines: Topic, read: Read, change: dict[str, str], said: str
) -> None:
    plant(airlines, *FIRST)
    append(log, APPLICATION, airlines, APPENDED)
    with pytest.raises(AppendedOtherwiseError, match=f"3 records were appended to airlines.*{said}") as caught:
        plant(replace(airlines, **change), "carrier,name", "VUE=,1", full_refresh=True)
    assert "headwater seed airlines --full-refresh --drop-appended" in str(caught.value.hint)
    assert len(read(airlines)) == 6
    result = plant(replace(airlines, **change), "carrier,name", "VUE=,1", full_refresh=True, drop_appended=True)
    assert (result.records, result.appended, len(read(replace(airlines, **change)))) == (1, 0, 1)


def test_log_that_does_not_know_what_came_with_a_seed_is_asked_for_a_decision(
    log: EmbeddedLog, plant: Plant, airlines: Topic, read: Read, state: Callable[[], LogState]
) -> None:
    plant(airlines, *FIRST)
    append(log, APPLICATION, airlines, APPENDED)
    found = state()
    found.seeds["airlines"] = replace(found.seeds["airlines"], parts=None)  # as an earlier version has folded it
    commits = log.commits(APPLICATION)
    identity = commits.identity(found.number)
    assert identity is not None
    assert commits.save_snapshot(found.number, found.snapshot(), identity)
    with pytest.raises(AppendedUnknownError, match="it is unknown which records of airlines came with its seed"):
        plant(airlines, *FIRST[:2], full_refresh=True)
    assert plant(airlines, *FIRST[:2], full_refresh=True, drop_appended=True).records == 1


def test_seed_that_gives_the_same_records_with_the_columns_of_now_goes_on(
    log: EmbeddedLog, plant: Plant, airlines: Topic, read: Read, state: Callable[[], LogState]
) -> None:
    timed = replace(airlines, value="name string, since int")
    plant(timed, "carrier,name,since", "UA,United,1926", "AA,American,1930")
    append(log, APPLICATION, timed, [{"carrier": "DL", "name": "Delta", "since": 1929}])
    wider = replace(airlines, value="since bigint, alliance string, name string")
    result = plant(wider, "alliance,carrier,name,since", ",UA,United,1926", ",AA,American,1930")
    assert (result.outcome, result.records) == ("unchanged", 0)
    assert state().topics["airlines"].value == wider.value
    assert state().topics["airlines"].since == 1
    assert appended_records(state(), "airlines") == 1
    assert sorted(each.value["since"] for each in read(wider) if each.value) == [1926, 1929, 1930]
    number = state().number
    assert plant(wider, "alliance,carrier,name,since", ",UA,United,1926", ",AA,American,1930").outcome == "unchanged"
    assert state().number == number  # it is known by its hash now


@pytest.mark.parametrize(
    ("lines", "difference"),
    [
        ((*FIRST, "DL,Delta"), "it gives 4 records, and 3 are committed"),
        (("carrier,name", "UA,Untied", *FIRST[2:]), "other values of name"),
        ((*FIRST[:3], "DL,JetBlue"), "its records go to other partitions|other values of carrier"),
    ],
)
def test_seed_that_gives_others_says_what_differs_and_changes_nothing(
    plant: Plant, airlines: Topic, read: Read, lines: tuple[str, ...], difference: str
) -> None:
    plant(airlines, *FIRST)
    before = read(airlines)
    with pytest.raises(SeedChangedError, match=difference) as caught:
        plant(airlines, *lines)
    assert "records appended to it stay" in str(caught.value.hint)
    assert read(airlines) == before


def test_seed_with_values_in_an_added_column_is_another_one(plant: Plant, airlines: Topic) -> None:
    plant(airlines, *FIRST)
    wider = replace(airlines, value="name string, country string")
    with pytest.raises(SeedChangedError, match="other values of country"):
        plant(wider, "carrier,name,country", "UA,United,us", "AA,American,", "B6,JetBlue,")


def test_offsets_of_a_seed_are_in_no_commit_and_in_the_state(log: EmbeddedLog, plant: Plant, airlines: Topic) -> None:
    plant(airlines, *FIRST)
    found = LogState.load(log.commits(APPLICATION))
    parts = found.seeds["airlines"].parts or ()
    assert sum(part.end - part.start for part in parts) == 3
    assert AppendRecord(0, (), SeedSource("t", "h", "p")).seed_offsets == {}
