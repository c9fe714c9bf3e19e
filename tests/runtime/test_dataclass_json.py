from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.runtime.dataclass_json import DamagedFileError, fitting, from_json, to_json
from headwater.runtime.ir.topology import Store
from headwater.runtime.ir.windows import SessionWindow, SlidingWindow, Window
from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.log.ranges import LogRange
from headwater.runtime.log.segments.segment import Batch, Segment
from headwater.runtime.task_id import TaskKey
from headwater.runtime.tasks.plan import EpochPlan, LaneInput, StoreInput, TaskPlan, TopicInput

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FEW = {"max_size": 2}
TASKS = st.builds(TaskPlan, inputs=st.lists(st.from_type(TopicInput), **FEW).map(tuple), stores=st.just(()))
PLANS = st.builds(
    EpochPlan,
    log=st.tuples(st.text(), st.dictionaries(st.text(), JSON, **FEW)),
    threads=st.lists(st.lists(TASKS, **FEW).map(tuple), **FEW).map(tuple),
    globals_=st.dictionaries(st.text(), st.lists(st.from_type(TopicInput), **FEW).map(tuple), **FEW),
)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(PLANS)
def test_plan_comes_back_equal(plan: EpochPlan) -> None:
    assert from_json(EpochPlan, to_json(plan)) == plan


@given(st.from_type(TaskCommit))
def test_commit_comes_back_equal(commit: TaskCommit) -> None:
    assert from_json(TaskCommit, to_json(commit)) == commit


@pytest.mark.parametrize("kind", [Batch, Segment, LogRange, LaneInput, TopicInput, StoreInput, TaskKey, TaskPlan])
def test_each_part_of_a_plan_comes_back_equal(kind: type) -> None:
    batch = Batch(0, 10, 3, -5, 7, 1, 2)
    segment = Segment("t", 1, 0, "a/b.seg", (batch, batch), headers=True, base_offset=4, base_position=5)
    within = segment.range()
    lane = LaneInput(2, 3, (within,), clock=7, idle=False, more=True)
    topic = TopicInput("t", (lane,))
    store = StoreInput("s", 1, 2, (within,), 3)
    plan = TaskPlan(TaskKey("app", "sub", 1), 10, -1, {"step": 4}, (topic,), (store,))
    value = next(value for value in (batch, segment, within, lane, topic, store, plan.key, plan) if type(value) is kind)

    assert from_json(kind, to_json(value)) == value


def test_form_is_an_object_of_the_fields_without_spaces_and_of_a_batch_a_list() -> None:
    batch = Batch(0, 10, 3, -5, 7, 1, 2)
    commit = TaskCommit("hourly", 1, {"flights": {0: 7}}, 12, segments=(Segment("t", 1, 0, "a.seg", (batch,)),))

    segment = '{"topic":"t","partition":1,"lane":0,"path":"a.seg","batches":[[0,10,3,-5,7,1,2,0]],"headers":false,'
    segment += '"base_offset":-1,"base_position":-1,"head":0,"head_checksum":null,"span":null}'
    assert to_json(commit) == (
        '{"subtopology":"hourly","partition":1,"positions":{"flights":{"0":7}},"stream_time":12,"clocks":{},'
        f'"segments":[{segment}],"dropped":{{}},"applied":{{}},"globals":{{}},"records":0}}'
    )


def test_form_of_a_named_tuple_is_a_list() -> None:
    assert to_json(TaskKey("app", "sub", 1)) == '["app","sub",1]'
    assert from_json(TaskKey, '["app","sub",1]') == TaskKey("app", "sub", 1)


def test_text_from_before_a_field_was_added_reads_with_its_default() -> None:
    text = '{"subtopology":"hourly","partition":1,"positions":{},"stream_time":12}'
    assert from_json(TaskCommit, text) == TaskCommit("hourly", 1, {}, 12)
    assert from_json(Batch, "[0,10,3,-5,7,1,2]") == Batch(0, 10, 3, -5, 7, 1, 2)


def test_field_that_the_class_does_not_know_is_passed_over() -> None:
    assert from_json(One, '{"only":[1],"later":2}') == One((1,))


@dataclass(frozen=True)
class One:
    only: tuple[int, ...]


@dataclass(frozen=True)
class Listed:
    only: One
    as_list: ClassVar[bool] = True


@dataclass(frozen=True)
class Odd:
    one: One
    by_number: Mapping[int, One]
    pair: tuple[str, Listed]
    free: Mapping[str, Any] = field(default_factory=dict)
    share: float = 0.0


def test_class_with_a_single_field_and_one_within_mappings_and_pairs() -> None:
    value = Odd(One((1,)), {3: One(())}, ("a", Listed(One((2, 3)))), {"deep": [{"x": None}]})

    assert json.loads(to_json(value)) == {
        "one": {"only": [1]},
        "by_number": {"3": {"only": []}},
        "pair": ["a", [{"only": [2, 3]}]],
        "free": {"deep": [{"x": None}]},
        "share": 0.0,
    }
    assert from_json(Odd, to_json(value)) == value


def test_object_is_of_the_class_whose_fields_it_has() -> None:
    store = Store("s", 1, "k string", "n bigint", "window", Window(10, 5, 1))
    sessions = replace(store, type="session", window=SessionWindow(10, 5))
    sliding = replace(store, window=SlidingWindow(10, 5))
    for each in (store, sessions, sliding, replace(store, type="key_value", window=None)):
        assert from_json(Store, to_json(each)) == each


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("one", None, "one is null and not an object"),
        ("one", {}, "one.only is missing"),
        ("one", {"only": [1, "2"]}, "one.only[1] is a text and not a whole number"),
        ("one", {"only": [2**63]}, "one.only[0] does not fit into 64 bits"),
        ("pair", ["a"], "pair has 1 items and not 2"),
        ("pair", ["a", [{"only": []}, 1]], "pair[1] has 2 items and not 1"),
        ("share", float("inf"), "share is inf and not a finite number"),
    ],
)
def test_value_of_a_wrong_type_is_named_with_its_place(field: str, value: object, message: str) -> None:
    plain = {**json.loads(to_json(Odd(One((1,)), {}, ("a", Listed(One(())))))), field: value}
    with pytest.raises(DamagedFileError) as raised:
        fitting(Odd, plain)
    assert str(raised.value) == message
