"""Which changes of a topology stop it from going on with what is committed, and which do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from commits import part, topic, topology

from headwater.runtime.log.descriptions import StoreDescription, TopologyDescription
from headwater.runtime.progress.compatibility import differences
from headwater.runtime.topology import Agg, GlobalTable, Store, Topic, Window

FED = topic("fed")
MADE = topic("made", writer="p-t")
TOTALS = Store(
    "totals",
    2,
    "k string",
    "n bigint",
    type="window",
    window=Window(10, 10, 5),
    retention_ms=15,
    aggregates=(Agg("n", "count"),),
)


def described(source: Topic = FED, sink: Topic = MADE, *stores: Store) -> TopologyDescription:
    return TopologyDescription.of(topology("t", part("reads", (source,), (sink,), stores or (TOTALS,))))


def found(current: TopologyDescription, committed: TopologyDescription | None = None) -> list[str]:
    return list(differences(committed or described(), current, consumed=True))


def test_same_topology_has_no_differences() -> None:
    assert found(described()) == []


def test_before_anything_was_consumed_everything_may_change() -> None:
    other = described(topic("x"), topic("y"), replace(TOTALS, type="key_value"))
    assert list(differences(described(), other, consumed=False)) == []
    assert list(differences(TopologyDescription(), other, consumed=True)) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"partitions": 4}, "store totals: partition count was 2, is 4"),
        ({"key": "j string"}, "store totals: key was k string, is j string"),
        ({"value": "n int"}, "store totals: columns was n bigint, is n int"),
        ({"window": Window(20, 20, 5)}, "store totals: window was [10, 10], is [20, 20]"),
        ({"window": None}, "store totals: window was [10, 10], is none"),
        ({"aggregates": (Agg("n", "sum", "x", "int"),)}, "store totals: aggregates was n: count(*), is n: sum(x)"),
        (
            {"aggregates": (Agg("n", "min", "IF((x) IS NULL...", "struct<by:int>", written="min_by(s, x)"),)},
            "store totals: aggregates was n: count(*), is n: min_by(s, x)",
        ),
    ],
)
def test_store_that_means_something_else_is_a_difference(change: dict[str, Any], sentence: str) -> None:
    (only,) = found(described(FED, MADE, replace(TOTALS, **change)))
    assert only.startswith(sentence)


def test_aggregates_that_an_earlier_version_committed_are_shown_by_function_and_type() -> None:
    now = described(FED, MADE, replace(TOTALS, aggregates=(Agg("n", "sum", "x", "int"),)))
    before = replace(described(), stores={"totals": replace(StoreDescription.of(TOTALS), shown=())})
    (only,) = differences(before, now, consumed=True)
    assert only == "store totals: aggregates was n: count of rows, is n: sum(x)"


@pytest.mark.parametrize(
    "change", [{"window": Window(10, 10, 9)}, {"retention_ms": 99}, {"backend": "memory"}, {"changelog": False}]
)
def test_store_that_is_kept_otherwise_is_none(change: dict[str, Any]) -> None:
    assert found(described(FED, MADE, replace(TOTALS, **change))) == []


def test_changelog_cannot_begin_in_the_middle() -> None:
    (only,) = found(described(), described(FED, MADE, replace(TOTALS, changelog=False)))
    assert only.startswith("store totals: its changelog was not kept")


def test_all_stores_that_come_and_go_are_named() -> None:
    renamed = replace(TOTALS, name="sums")
    assert found(described(FED, MADE, renamed)) == [
        "store totals is gone",
        "store sums is new, and would miss the records consumed before",
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"partitions": 4}, "topic made: partition count was 2, is 4"),
        ({"key": "j string"}, "topic made: key was k string, is j string"),
        ({"value": "v int"}, "topic made: columns was v bigint, is v int"),
        ({"windowed": True}, "topic made: windowed key was False, is True"),
    ],
)
def test_written_topic_of_another_shape_is_a_difference(change: dict[str, Any], sentence: str) -> None:
    assert found(described(FED, replace(MADE, **change))) == [sentence]


def test_of_a_topic_fed_from_outside_the_value_may_change() -> None:
    assert found(described(replace(FED, value="v bigint, more string"))) == []
    assert found(described(replace(FED, partitions=3, value="v int"))) == [
        "topic fed: partition count was 2, is 3",
    ]


def test_topics_may_come_and_go() -> None:
    assert found(described(topic("other"), topic("also_made", writer="p-t"))) == []


def test_subtopology_of_another_name_would_read_a_topic_again() -> None:
    committed = TopologyDescription.of(topology("t", part("late", (FED,), (MADE,), (TOTALS,))))
    current = TopologyDescription.of(topology("t", part("early", (FED,), (MADE,), (TOTALS,))))
    assert found(current, committed) == [
        "topic fed: it was read by late, and early would read it again from its beginning"
    ]


def moved(read: str, kept: str) -> TopologyDescription:
    """A topology in two parts: one reads what is fed, the other one keeps the totals."""
    again = topic("again", writer="p-t")
    return TopologyDescription.of(
        topology("t", part(read, (FED,), (again,), number=4), part(kept, (again,), (MADE,), (TOTALS,), number=2))
    )


def test_store_in_another_subtopology_would_keep_what_was_made_of_other_records() -> None:
    sentence = (
        "store totals was in subtopology reads (reads fed), and is in rekeyed (reads again) now: its rows were made "
        "of the records and keys there, and would stay as they are"
    )
    now = moved("reads", "rekeyed")
    assert found(now) == [sentence]
    assert list(differences(described(), now, True, {"totals": "topologies/t.yml:9"})) == [
        f"topologies/t.yml:9: {sentence}"
    ]
    assert "was in subtopology rekeyed (reads again), and is in reads (reads fed) now" in found(described(), now)[0]


def test_subtopology_of_another_number_is_none() -> None:
    numbered = topology("t", part("reads", (FED,), (MADE,), (TOTALS,), number=7))
    assert found(TopologyDescription.of(numbered)) == []


def test_store_of_which_the_log_does_not_say_where_it_was_is_none() -> None:
    before = described()
    parts = {name: replace(each, stores=()) for name, each in before.subtopologies.items()}
    assert found(moved("reads", "rekeyed"), replace(before, subtopologies=parts)) == []


def with_table(raw: Topic, begun: dict[str, int] | None = None) -> TopologyDescription:
    table = GlobalTable("names", raw, Store("names", raw.partitions, raw.key, raw.value))
    return TopologyDescription.of(topology("t", part("reads", (FED,), (MADE,), (TOTALS,), (table,))), begun)


def test_columns_of_a_global_tables_topic_are_those_of_its_store() -> None:
    assert found(with_table(topic("raw")), with_table(topic("raw"))) == []
    assert found(with_table(replace(topic("raw"), value="v int")), with_table(topic("raw"))) == [
        "topic raw: columns was v bigint, is v int"
    ]


def test_topic_that_was_fully_refreshed_has_other_records_at_the_positions_consumed() -> None:
    committed = with_table(topic("raw"), {"fed": 1, "raw": 2})
    assert found(with_table(topic("raw"), {"fed": 1, "raw": 5}), committed) == [
        "topic raw was fully refreshed after its records were consumed"
    ]
    assert found(with_table(topic("raw"), {"fed": 4, "raw": 5}), with_table(topic("raw"), {"raw": 5})) == []


def test_topic_that_another_application_writes_by_now_is_a_difference() -> None:
    committed = described(replace(FED, writer="p-a"))
    assert found(described(replace(FED, writer="p-b")), committed) == ["topic fed: its writer was p-a, is p-b"]
    assert found(described(), committed) == ["topic fed: its writer was p-a, is fed from outside"]
