"""Which changes of a topology stop it from going on with what is committed, and which do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headwater.runtime.changes.comparison import Comparison
from headwater.runtime.changes.model import CONTINUE, Change, Subject, Verdict, ways_onward
from headwater.runtime.changes.moves import continuing, with_real_ways
from headwater.runtime.ir.topology import Agg, GlobalTable, StepText, Store, Topic
from headwater.runtime.ir.windows import JoinWindow, SlidingWindow, Window
from headwater.runtime.log.commit.descriptions import StoreDescription, TopologyDescription
from headwater.tests.runtime.driver.commits import part, topic, topology

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
    return TopologyDescription.from_topology(topology("t", part("reads", (source,), (sink,), stores or (TOTALS,))))


def changes(
    current: TopologyDescription, committed: TopologyDescription | None = None, consumed: bool = True
) -> list[Change]:
    return list(Comparison("p-t", committed or described(), current).changes(consumed))


def found(current: TopologyDescription, committed: TopologyDescription | None = None) -> list[str]:
    refused = [each for each in changes(current, committed) if each.verdict is Verdict.ERROR]
    return [f"{each.subject}: {each.what}" + "".join(f" | {line}" for line in each.lines) for each in refused]


def test_same_topology_has_no_differences() -> None:
    assert found(described()) == []


def test_before_anything_was_consumed_everything_may_change() -> None:
    other = described(topic("x"), topic("y"), replace(TOTALS, type="key_value"))
    assert changes(other, consumed=False) == []
    assert changes(other, TopologyDescription()) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"partitions": 4}, "store totals: its partition count was 2, is 4"),
        ({"key": "j string"}, "store totals: its key changed | + j string | - k string"),
        ({"value": "n int"}, "store totals: its columns changed | ~ n bigint -> int"),
        ({"type": "changes"}, "store totals: its type was window, is that of `suppress` with `for`"),
        ({"window": Window(20, 20, 5)}, "store totals: its window was tumbling 10ms, is tumbling 20ms"),
        ({"window": None}, "store totals: its window was tumbling 10ms, is none"),
        ({"window": SlidingWindow(10, 5)}, "store totals: its window was tumbling 10ms, is sliding 10ms"),
        (
            {"aggregates": (Agg("n", "sum", "x", "int"),)},
            "store totals: its aggregates changed | ~ n: count(*) -> sum(x)",
        ),
        (
            {"aggregates": (Agg("n", "min", "IF((x) IS NULL...", "struct<by:int>", written="min_by(s, x)"),)},
            "store totals: its aggregates changed | ~ n: count(*) -> min_by(s, x)",
        ),
    ],
)
def test_store_that_means_something_else_is_a_difference(change: dict[str, Any], sentence: str) -> None:
    (only,) = found(described(FED, MADE, replace(TOTALS, **change)))
    assert only.startswith(sentence)


SEEN = Store("seen", 2, "k string", "n bigint", type="window", window=JoinWindow(10, 10, 5))


@pytest.mark.parametrize(
    ("window", "sentence", "onward"),
    [
        (JoinWindow(10, 20, 5), "its join was within 10ms, is before 10ms, after 20ms", False),
        (JoinWindow(10, 10, 9), "its grace was 5ms, is 9ms", True),
        (Window(10, 10, 5), "its window was none, is tumbling 10ms", False),
    ],
)
def test_other_times_of_a_join_are_another_store_and_another_grace_may_count_from_now_on(
    window: Any, sentence: str, onward: bool
) -> None:
    first, *_ = changes(described(FED, MADE, replace(SEEN, window=window)), described(FED, MADE, SEEN))
    assert (first.verdict, str(first.subject), first.what) == (Verdict.ERROR, "store seen", sentence)
    assert bool(first.onward) == onward


@pytest.mark.parametrize("type_", ["window", "session"])
def test_other_retention_of_windows_that_a_processor_gives_is_another_store(type_: Any) -> None:
    given = Store("seen", 2, "k string", "n bigint", type=type_, retention_ms=15)
    (only,) = changes(described(FED, MADE, replace(given, retention_ms=99)), described(FED, MADE, given))
    sentence = "its retention was 15ms, is 99ms, and its rows are found by that"
    assert (only.verdict, only.kind, only.what) == (Verdict.ERROR, "store.retention", sentence)
    assert not only.onward


@pytest.mark.parametrize(("retention", "was"), [(15, "7ms"), (119_999, "59999ms"), (120_000, None), (180_000, None)])
def test_rows_that_an_earlier_version_kept_by_shorter_segments_are_told(retention: int, was: str | None) -> None:
    given = Store("seen", 2, "k string", "n bigint", type="window", retention_ms=retention)
    now = described(FED, MADE, given)
    then = replace(now, stores={name: replace(each, segment=None) for name, each in now.stores.items()})
    told = [(each.verdict, each.kind, each.what) for each in changes(now, then)]
    what = f"an earlier version of Headwater kept its rows by {was} of time, this one does by 1m, in Kafka's order"
    assert told == ([(Verdict.ERROR, "store.layout", what)] if was else [])
    assert changes(now, now) == []


def test_aggregates_that_an_earlier_version_committed_are_shown_by_function_and_type() -> None:
    now = described(FED, MADE, replace(TOTALS, aggregates=(Agg("n", "sum", "x", "int"),)))
    before = replace(described(), stores={"totals": replace(StoreDescription.from_store(TOTALS), shown=())})
    (only,) = found(now, before)
    assert only == "store totals: its aggregates changed | ~ n: count of rows -> sum(x)"


@pytest.mark.parametrize(
    ("change", "sentence", "onward"),
    [
        ({"window": Window(10, 10, 9)}, "its grace was 5ms, is 9ms", "it applies from the next record on"),
        ({"retention_ms": 99}, "its retention was 15ms, is 99ms", "it applies from now on, and expired rows do"),
    ],
)
def test_setting_that_decides_what_rows_are_counts_for_all_records_or_from_the_next_one_on(
    change: dict[str, Any], sentence: str, onward: str
) -> None:
    (only,) = changes(described(FED, MADE, replace(TOTALS, **change)))
    assert (only.verdict, str(only.subject), only.what) == (Verdict.ERROR, "store totals", sentence)
    assert only.onward.startswith(onward)
    (gone_on,) = continuing([only])
    assert (gone_on.verdict, gone_on.what, gone_on.ways) == (Verdict.COMPATIBLE, f"{sentence}; {only.onward}", ())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"backend": "memory"}, "its backend was lmdb, is memory; clients restore the store from its changelog"),
        ({"changelog": False}, "its changelog is not kept any more"),
    ],
)
def test_store_that_is_kept_otherwise_goes_on(change: dict[str, Any], sentence: str) -> None:
    (only,) = changes(described(FED, MADE, replace(TOTALS, **change)))
    assert (only.verdict, str(only.subject)) == (Verdict.COMPATIBLE, "store totals")
    assert only.what.startswith(sentence)


def test_aggregate_of_another_expression_may_go_on_with_the_rows_that_are_there() -> None:
    one, other = (replace(TOTALS, aggregates=(Agg("n", "sum", column, "int"),)) for column in ("x", "2 * x"))
    (only,) = changes(described(FED, MADE, other), described(FED, MADE, one))
    assert (only.kind, only.verdict, only.lines) == (
        "store.expressions",
        Verdict.ERROR,
        ("~ n: sum(x) -> sum(2 * x)",),
    )
    (gone_on,) = continuing([only])
    assert gone_on.what.endswith("they apply from the next record on, and rows resume from their present values")


def test_aggregate_that_is_written_in_another_way_is_no_change() -> None:
    one, other = (
        replace(TOTALS, aggregates=(Agg("n", "sum", column, "int"),))
        for column in ("if(x > 1, 1, 0)", "IF((x > 1), 1, 0)")
    )
    assert changes(described(FED, MADE, other), described(FED, MADE, one)) == []


def test_backend_of_a_store_without_changelog_cannot_change() -> None:
    kept = replace(TOTALS, changelog=False)
    assert found(described(FED, MADE, replace(kept, backend="other")), described(FED, MADE, kept)) == [
        "store totals: its backend was lmdb, is other, and without a changelog its rows are only in lmdb"
    ]


def test_settings_of_stores_that_an_earlier_version_did_not_record_are_not_compared() -> None:
    before = replace(described(), stores={"totals": replace(StoreDescription.from_store(TOTALS), settings={})})
    assert changes(described(FED, MADE, replace(TOTALS, retention_ms=99)), before) == []


def with_steps(*steps: StepText, content_hash: str = "1") -> TopologyDescription:
    one = replace(part("reads", (FED,), (MADE,), (TOTALS,)), steps=steps)
    return TopologyDescription.from_topology(replace(topology("t", one), content_hash=content_hash))


READ = StepText("late", "from fed", "topologies/t.yml:4")
FILTER = StepText("late", "filter delay > 15", "topologies/t.yml:6")
WRITE = StepText("late", "to made", "topologies/t.yml:9")


def test_changed_step_is_shown_with_its_place_and_its_ways() -> None:
    now = replace(FILTER, text="filter delay > 30", at="topologies/t.yml:7")
    (only,) = changes(with_steps(READ, now, WRITE), with_steps(READ, FILTER, WRITE))
    assert only == Change(
        "flow.steps",
        Subject("flow", "late", "p-t"),
        Verdict.ERROR,
        "its steps changed",
        ("- filter delay > 15", "+ filter delay > 30"),
        "topologies/t.yml:7",
        ways_onward("p-t"),
        onward="they apply from the next record on; existing results stay",
    )
    assert CONTINUE in only.ways
    window = replace(only, kind="store.window", onward="")
    assert [CONTINUE in each.ways for each in with_real_ways([only, window])] == [False, False]


def test_flow_whose_reader_has_gone_elsewhere_is_not_the_one_that_has_changed() -> None:
    """`base` is read by `a` and `b`, until `b` reads the topic: from then on the steps of `base` and `a` are one."""
    base = (StepText("base", "from fed"), StepText("base", "filter delay > 15"))
    above = "from flow base"
    a, b = (StepText("a", "to a"), StepText("b", "to b"))
    shared = with_steps(*base, StepText("a", above), a, StepText("b", above), b)
    apart = with_steps(*base, replace(a, flow="base"), StepText("b", "from fed"), b)
    for was, is_, lines in (
        (shared, apart, (f"- {above}", "+ from fed")),
        (apart, shared, ("- from fed", f"+ {above}")),
    ):
        (only,) = changes(is_, was)
        assert (str(only.subject), only.lines) == ("flow b", lines)


@pytest.mark.parametrize("text", ["filter  delay>15", "filter delay\n  > 15", "filter (delay) > 15"])
def test_step_that_is_only_spelled_in_another_way_is_no_change(text: str) -> None:
    assert changes(with_steps(READ, replace(FILTER, text=text)), with_steps(READ, FILTER)) == []


@pytest.mark.parametrize(
    ("was", "is_"),
    [
        ("filter name = 'a  b'", "filter name = 'a b'"),
        ("filter name = 'a' 'b'", "filter name = 'a''b'"),
        ("filter 1 - -n", "filter 1 --n"),
        ("filter name = r'\\' || 'a  b'", "filter name = r'\\' || 'a b'"),
        ("filter a -- b\n and c", "filter a -- b and c"),
        ("filter delay > 15", "filter delay > 1 5"),
        ("filter `a  b` > 1", "filter `a b` > 1"),
    ],
)
def test_step_that_may_mean_something_else_is_a_change(was: str, is_: str) -> None:
    before, now = (with_steps(READ, replace(FILTER, text=text)) for text in (was, is_))
    assert [each.kind for each in changes(now, before)] == ["flow.steps"]


def test_steps_in_another_place_of_the_file_are_no_change() -> None:
    assert changes(with_steps(READ, replace(FILTER, at="topologies/t.yml:77")), with_steps(READ, FILTER)) == []


def test_flows_that_come_and_go_are_named() -> None:
    other = replace(READ, flow="early")
    assert [(each.kind, each.subject.name) for each in changes(with_steps(READ, other), with_steps(READ, FILTER))] == [
        ("flow.steps", "late"),
        ("flow.added", "early"),
    ]
    gone = changes(with_steps(READ), with_steps(READ, other))
    assert [(each.kind, each.verdict) for each in gone] == [("flow.removed", Verdict.COMPATIBLE)]
    (only,) = changes(with_steps(other), with_steps(READ))
    assert (only.kind, str(only.subject), only.what) == ("flow.renamed", "flow early", "it was called late so far")


def test_new_flow_counts_for_all_records_where_its_subtopology_has_read_some() -> None:
    other = replace(READ, flow="early")
    (added,) = changes(with_steps(READ, other), with_steps(READ))
    assert (added.verdict, added.onward.partition(";")[0]) == (Verdict.ERROR, "it starts at the next record")

    def with_part(sink: Topic) -> TopologyDescription:
        one = replace(part("reads", (FED,), (MADE,), (TOTALS,)), steps=(READ,))
        two = replace(part("early", (topic("further"),), (sink,), number=1), steps=(other,))
        return TopologyDescription.from_topology(topology("t", one, two))

    (elsewhere,) = changes(with_part(topic("own", writer="p-t")), with_steps(READ))
    assert (elsewhere.kind, elsewhere.verdict) == ("flow.added", Verdict.COMPATIBLE)
    (shared,) = changes(with_part(MADE), with_steps(READ))
    assert (shared.kind, shared.verdict) == ("flow.added", Verdict.ERROR)


def test_flow_that_is_gone_counts_for_all_records_where_others_write_its_topic() -> None:
    other = replace(WRITE, flow="early")
    (shared,) = changes(with_steps(READ, WRITE), with_steps(READ, WRITE, other))
    assert (shared.verdict, shared.what) == (Verdict.ERROR, "it is gone, and made is still written")
    alone = replace(other, text="to alone")
    (only,) = changes(with_steps(READ, WRITE), with_steps(READ, WRITE, alone))
    assert (only.verdict, only.what) == (Verdict.COMPATIBLE, "it is gone; existing results stay")


def test_flow_that_reads_another_flow_is_changed_where_the_log_says_what_it_has_read() -> None:
    inner = StepText("inner", "from flow late")
    kept = StepText("inner", "to kept", "topologies/t.yml:12")
    before = with_steps(READ, inner, kept)
    (other,) = changes(with_steps(READ, replace(inner, text="from flow early"), kept), before)
    assert (other.kind, other.lines) == ("flow.steps", ("- from flow late", "+ from flow early"))
    older = replace(with_steps(READ, kept), settings={})  # of a version that did not note it
    assert changes(before, older) == []


def test_flows_that_share_steps_with_fewer_or_more_others_are_not_changed() -> None:
    def to(flow: str) -> StepText:
        return StepText(flow, f"to {flow}", "topologies/t.yml:12")

    def reads(flow: str) -> StepText:
        return StepText(flow, "from flow late")

    both = with_steps(READ, FILTER, reads("a"), reads("b"), to("a"), to("b"))
    one = with_steps(READ, FILTER, StepText("late", "to a", "topologies/t.yml:12"))
    assert [(each.kind, each.subject.name, each.verdict) for each in changes(one, both)] == [
        ("flow.removed", "b", Verdict.COMPATIBLE)
    ]
    three = with_steps(READ, FILTER, reads("a"), reads("b"), reads("c"), to("a"), to("b"), to("c"))
    assert [(each.kind, each.subject.name, each.verdict) for each in changes(three, both)] == [
        ("flow.added", "c", Verdict.ERROR)
    ]


def test_flow_that_goes_with_all_that_read_it_leaves_records_in_a_topic_that_is_still_written() -> None:
    def reads(flow: str) -> StepText:
        return StepText(flow, "from flow early", "topologies/t.yml:12")

    early = replace(READ, flow="early")
    steps = (early, StepText("early", "to made"), reads("a"), StepText("a", "to a"), reads("b"), StepText("b", "to b"))
    gone = {
        each.subject.name: each.verdict for each in changes(with_steps(READ, WRITE), with_steps(READ, WRITE, *steps))
    }
    assert gone == {"a": Verdict.COMPATIBLE, "b": Verdict.COMPATIBLE, "early": Verdict.ERROR}
    come = {each.subject.name for each in changes(with_steps(READ, WRITE, *steps), with_steps(READ, WRITE))}
    assert come == {"a", "b", "early"}


def test_flow_whose_steps_name_a_renamed_flow_is_not_changed() -> None:
    last = StepText("all", "to all", "topologies/t.yml:20")
    before = with_steps(READ, FILTER, StepText("all", "merge late, early"), last)
    late = [replace(each, flow="behind") for each in (READ, FILTER)]
    (only,) = changes(with_steps(*late, StepText("all", "merge behind, early"), last), before)
    assert (only.kind, only.subject.name) == ("flow.renamed", "behind")


def test_change_that_an_earlier_version_has_not_recorded_is_told_of_the_topology() -> None:
    before = replace(with_steps(READ), settings={})
    (only,) = changes(with_steps(READ, content_hash="2"), before)
    assert (only.kind, only.verdict) == ("topology.content", Verdict.COMPATIBLE)
    (only,) = changes(with_steps(READ, content_hash="2"), replace(before, subtopologies=with_steps().subtopologies))
    assert only.kind == "topology.content"


def test_other_content_of_which_each_setting_is_the_same_is_no_change() -> None:
    assert changes(with_steps(READ, content_hash="2"), with_steps(READ)) == []


def test_option_of_a_backend_that_is_called_as_a_setting_is_told_as_an_option() -> None:
    options = {"topic": 1, "retention": 2, "backend": 3, "changelog cleanup": 4}
    before = described(FED, MADE, replace(TOTALS, options=options))
    other = replace(TOTALS, options={name: value + 1 for name, value in options.items()}, retention_ms=30)
    told = {(each.kind, each.what.partition(";")[0]) for each in changes(described(FED, MADE, other), before)}
    assert told == {
        ("store.retention", "its retention was 15ms, is 30ms"),
        *((f"store.option.{name}", f"its option {name} was {v}, is {v + 1}") for name, v in options.items()),
    }
    gone = [each.what for each in changes(described(), before)]
    assert gone == [
        f"its option {name} was {value}, is none; stores are opened with it from now on"
        for name, value in options.items()
    ]


def test_options_that_an_earlier_version_has_written_among_the_settings_of_a_store_are_compared() -> None:
    now = described(FED, MADE, replace(TOTALS, options={"map_size": 2, "topic": 1}))
    of_then = {"changelog cleanup": "compact,delete", "map_size": "1", "topic": "1"}
    settings = {name: each for name, each in now.settings.items() if name != "options totals"}
    (only,) = changes(now, replace(now, settings={**settings, "store totals": of_then}))
    assert (only.kind, only.what.partition(";")[0]) == ("store.option.map_size", "its option map_size was 1, is 2")


def test_changelog_cannot_begin_in_the_middle() -> None:
    (only,) = found(described(), described(FED, MADE, replace(TOTALS, changelog=False)))
    assert only.startswith("store totals: its changelog was not kept")


def test_all_stores_that_come_and_go_are_named() -> None:
    renamed = replace(TOTALS, name="sums")
    assert found(described(FED, MADE, renamed)) == [
        "store totals: it is gone; is sums its new name?",
        "store sums: it is new, and would miss the records consumed before",
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"partitions": 4}, "topic made: its partition count was 2, is 4"),
        ({"key": "j string"}, "topic made: its key changed | + j string | - k string"),
        (
            {"value": "v int, w int"},
            "topic made: its records cannot be read with its present columns | ~ v bigint -> int",
        ),
        ({"windowed": True}, "topic made: it has a window in its key now"),
    ],
)
def test_written_topic_of_another_shape_is_a_difference(change: dict[str, Any], sentence: str) -> None:
    assert found(described(FED, replace(MADE, **change))) == [sentence]


def test_of_a_topic_fed_from_outside_the_value_may_change() -> None:
    assert found(described(replace(FED, value="v bigint, more string"))) == []
    assert found(described(replace(FED, partitions=3, value="v int"))) == [
        "topic fed: its partition count was 2, is 3",
    ]


def test_topics_may_come_and_go() -> None:
    assert found(described(topic("other"), topic("also_made", writer="p-t"))) == []


def test_subtopology_of_another_name_would_read_a_topic_again() -> None:
    committed = TopologyDescription.from_topology(topology("t", part("late", (FED,), (MADE,), (TOTALS,))))
    current = TopologyDescription.from_topology(topology("t", part("early", (FED,), (MADE,), (TOTALS,))))
    assert found(current, committed) == [
        "topic fed: it was read by late, and early would read it again from its beginning"
    ]


def moved(read: str, kept: str) -> TopologyDescription:
    """A topology in two parts: one reads what is fed, the other one keeps the totals."""
    again = topic("again", writer="p-t")
    return TopologyDescription.from_topology(
        topology("t", part(read, (FED,), (again,), number=4), part(kept, (again,), (MADE,), (TOTALS,), number=2))
    )


def test_store_in_another_subtopology_would_keep_what_was_made_of_other_records() -> None:
    sentence = (
        "store totals: it was in subtopology reads (reads fed), and is in rekeyed (reads again) now: its rows were "
        "computed from the records and keys there, and would stay"
    )
    now = moved("reads", "rekeyed")
    assert found(now) == [sentence]
    (only,) = Comparison("p-t", described(), now, {"totals": "topologies/t.yml:9"}).changes(consumed=True)
    assert str(only) == f"topologies/t.yml:9: {sentence}"
    assert "was in subtopology rekeyed (reads again), and is in reads (reads fed) now" in found(described(), now)[0]


def test_subtopology_of_another_number_is_none() -> None:
    numbered = topology("t", part("reads", (FED,), (MADE,), (TOTALS,), number=7))
    assert found(TopologyDescription.from_topology(numbered)) == []


def test_store_of_which_the_log_does_not_say_where_it_was_is_none() -> None:
    before = described()
    parts = {name: replace(each, stores=()) for name, each in before.subtopologies.items()}
    assert found(moved("reads", "rekeyed"), replace(before, subtopologies=parts)) == []


def with_table(raw: Topic, begun: dict[str, int] | None = None) -> TopologyDescription:
    table = GlobalTable("names", raw, Store("names", raw.partitions, raw.key, raw.value))
    return TopologyDescription.from_topology(topology("t", part("reads", (FED,), (MADE,), (TOTALS,), (table,))), begun)


def test_columns_of_a_global_tables_topic_are_those_of_its_store() -> None:
    assert found(with_table(topic("raw")), with_table(topic("raw"))) == []
    assert found(with_table(replace(topic("raw"), value="v int")), with_table(topic("raw"))) == [
        "topic raw: its records cannot be read with its present columns | ~ v bigint -> int"
    ]
    (change,) = changes(with_table(replace(topic("raw"), value="w int, v bigint")), with_table(topic("raw")))
    assert (change.verdict, change.lines) == (Verdict.COMPATIBLE, ("+ w int",))


@pytest.mark.parametrize(
    ("value", "lines"),
    [("w string, v bigint", ("+ w string",)), ("w int", ("+ w int", "- v bigint"))],
)
def test_written_topic_with_a_new_column_may_go_on_with_records_that_lack_it(
    value: str, lines: tuple[str, ...]
) -> None:
    (change,) = changes(described(FED, replace(MADE, value=value)))
    assert (change.kind, change.verdict, change.what) == ("topic.columns", Verdict.ERROR, "its columns changed")
    assert (change.onward, change.lines) == ("the earlier records have no w: null there", lines)


def test_written_topic_with_a_wider_or_without_a_column_goes_on() -> None:
    (wider,) = changes(described(FED, replace(MADE, value="v decimal(20,1)")))
    assert wider.what == "its columns changed; the earlier records are read with the present ones"
    (fewer,) = changes(described(FED, MADE), described(FED, replace(MADE, value="v bigint, w int")))
    assert [(each.verdict, each.lines) for each in (wider, fewer)] == [
        (Verdict.COMPATIBLE, ("~ v bigint -> decimal(20,1)",)),
        (Verdict.COMPATIBLE, ("- w int",)),
    ]


def test_column_that_comes_back_to_a_written_topic_as_another_type_is_refused() -> None:
    first = described(FED, replace(MADE, value="v bigint, w int"))
    without = TopologyDescription.from_topology(topology("t", part("reads", (FED,), (MADE,), (TOTALS,))), before=first)
    assert without.topics["made"].earlier == ("v bigint, w int",)
    (back,) = changes(described(FED, replace(MADE, value="v bigint, w bigint")), without)
    assert back.onward == "the earlier records have no w: null there"
    assert found(described(FED, replace(MADE, value="v bigint, w string")), without) == [
        "topic made: its records cannot be read with its present columns | ~ w int -> string"
    ]


def test_repartition_topic_gets_a_column_only_once_all_its_records_are_consumed() -> None:
    wider = described(FED, replace(MADE, value="v bigint, w string"))
    (change,) = Comparison("p-t", described(), wider, unread=("made",)).changes(consumed=True)
    assert change.verdict is Verdict.ERROR
    assert change.what == "it repartitions, and has records without w that were not consumed yet"
    assert change.ways[0].what.startswith("undo the change, let the topology catch up")
    narrower = described(FED, replace(MADE, value="v bigint"))
    (change,) = Comparison("p-t", wider, narrower, unread=("made",)).changes(consumed=True)
    assert change.verdict is Verdict.COMPATIBLE


def test_topic_that_was_fully_refreshed_has_other_records_at_the_positions_consumed() -> None:
    committed = with_table(topic("raw"), {"fed": 1, "raw": 2})
    assert found(with_table(topic("raw"), {"fed": 1, "raw": 5}), committed) == [
        "topic raw: it was fully refreshed after its records were consumed"
    ]
    assert found(with_table(topic("raw"), {"fed": 4, "raw": 5}), with_table(topic("raw"), {"raw": 5})) == []


def test_topic_that_another_application_writes_by_now_is_a_difference() -> None:
    committed = described(replace(FED, writer="p-a"))
    assert found(described(replace(FED, writer="p-b")), committed) == [
        "topic fed: it was written by p-a so far, and is written by p-b now"
    ]
    assert found(described(), committed) == ["topic fed: it was written by p-a so far, and is external now"]
