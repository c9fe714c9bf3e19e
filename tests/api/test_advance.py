"""`advance` and `advance_wall_clock`: what steps give up as time passes without a record, without Java."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater import TopologyTestDriver
from headwater.runtime.ir.topology import ExpressionEngine
from headwater.runtime.testing.driven import DrivenRunError

ROOT = Path(__file__).parents[2]
TOPICS = """
topics:
  a: {partitions: 2, key: {k: string}, value: {v: bigint}}
  b: {partitions: 2, key: {k: string}, value: {w: bigint}}
"""
CLOSED = """
topology: closed
flows:
  tumbling:
    from: a
    steps:
      - window: {tumbling: 10s}
      - aggregate: {emit: on_close, values: {n: count(*)}}
    to: tumbling_out
  sliding:
    from: a
    steps:
      - window: {sliding: 10s}
      - aggregate: {emit: on_close, values: {n: count(*)}}
    to: sliding_out
  sessions:
    from: a
    steps:
      - window: {session: 10s}
      - aggregate: {emit: on_close, values: {n: count(*)}}
    to: sessions_out
  suppressed:
    from: a
    steps:
      - window: {tumbling: 10s}
      - aggregate: {values: {n: count(*)}}
      - suppress: {until: window_closes}
    to: suppressed_out
  sliding_suppressed:
    from: a
    steps:
      - window: {sliding: 10s}
      - aggregate: {values: {n: count(*)}}
      - suppress: {until: window_closes}
    to: sliding_suppressed_out
  reduced:
    from: a
    steps:
      - window: {session: 10s}
      - reduce: {emit: on_close, function: functions.ticking:added}
    to: reduced_out
  classed:
    from: a
    steps:
      - window: {session: 10s}
      - aggregate: {emit: on_close, function: functions.ticking:Counted, values: {n: bigint}}
    to: classed_out
"""
FAILING = """
topology: failing
flows:
  failing:
    from: a
    on_error: dead_letter
    steps:
      - window: {tumbling: 10s}
      - aggregate: {emit: on_close, values: {n: count(*), v: sum(v)}}
      - select: {share: n / v}
    to: shares
"""
LONELY = """
topology: lonely
flows:
  lonely:
    from: a
    steps:
      - join: {stream: b, type: left, within: 10s, values: {share: 10 / this.v}}
    to: lonely_out
"""
SKIPPING = LONELY.replace("lonely", "skipping").replace("    steps:", "    on_error: skip\n    steps:")
WAITING = """
topology: waiting
flows:
  totals:
    from: a
    steps:
      - aggregate: {values: {n: count(*)}}
      - suppress: {for: 1m, max_records: 5}
      - to_stream
    to: totals_out
  paired:
    from: a
    steps:
      - join: {stream: b, type: outer, within: 10s}
    to: paired_out
"""
CASCADE = """
topology: cascade
stores:
  tens: {type: window}
  minutes: {type: window}
flows:
  cascade:
    from: a
    steps:
      - window: {tumbling: 10s}
      - aggregate: {store: tens, emit: on_close, values: {n: count(*)}}
      - key_by: {all: "1"}
      - window: {tumbling: 1m}
      - aggregate: {store: minutes, emit: on_close, values: {tens: count(*), n: sum(n)}}
    to: minutes_out
"""
TICKING = """
topology: ticking
stores:
  seen: {type: key_value, key: {k: string}, value: {n: bigint}, retention: 1m}
flows:
  ticking:
    from: a
    steps:
      - window: {tumbling: 10s}
      - aggregate: {emit: on_close, values: {n: count(*)}}
      - key_by: {k: k}
      - process:
          function: functions.ticking:Ticking
          stores: [seen]
          value: {n: bigint, what: string, topic: string}
    to: ticks
"""
CODE = """
from headwater import Record


def added(old, new):
    return {"v": old.v + new.v}


class Counted:
    def initial(self):
        return {"n": 0}

    def add(self, state, key, value):
        return {"n": state.n + value.v}

    def merge(self, a, b):
        return {"n": a.n + b.n}


class Ticking:
    def init(self, context):
        self.context = context
        self.seen = context.store("seen")
        context.schedule("20s", "stream_time", lambda time: self.tell("stream", time))
        context.schedule("30s", "wall_clock", lambda time: self.tell("wall", time))

    def process(self, record):
        self.seen.put(record.key, {"n": record.value.n})
        value = {"n": record.value.n, "what": "came", "topic": self.context.topic}
        self.context.forward(Record(record.key, value, record.timestamp))

    def tell(self, what, time):
        for key, row in self.seen.all():
            self.context.forward(Record(key, {"n": row.n, "what": what, "topic": self.context.topic}, time))
"""
ENGINES = pytest.mark.parametrize("engine", ["task", pytest.param("spark", marks=pytest.mark.spark)])
TASKS_FIRST = pytest.mark.parametrize(
    "engine", ["task", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])]
)
"""For what does not depend on who computes expressions: `make soak` has it on Spark too."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    golden = ROOT / "tests" / "golden" / "windows" / "project"
    files = {name: golden.joinpath(name).read_text() for name in ("headwater.yml", "profiles.yml")}
    files |= {"topics/topics.yml": TOPICS, "functions/ticking.py": CODE}
    topologies = {
        "closed": CLOSED,
        "failing": FAILING,
        "waiting": WAITING,
        "lonely": LONELY,
        "skipping": SKIPPING,
        "cascade": CASCADE,
        "ticking": TICKING,
    }
    files |= {f"topologies/{name}.yml": text for name, text in topologies.items()}
    for path, text in files.items():
        root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(path).write_text(text)
    return root


def records(*given: tuple[str, int, int], column: str = "v") -> list[dict[str, Any]]:
    """Records of (key, value, second) each."""
    return [{"key": {"k": k}, "value": {column: v}, "timestamp": second * 1000} for k, v, second in given]


def written(driver: TopologyTestDriver, topic: str, *columns: str) -> list[tuple[Any, ...]]:
    """The key's first column, the second, and the value's columns of each record that came since, by key."""
    found = []
    for each in driver.read_output(topic):
        key, value = each.key or {}, each.value or {}
        found.append((next(iter(key.values())), each.timestamp // 1000, *(value[name] for name in columns)))
    return sorted(found, key=lambda each: str(each[0]))


def test_window_closes_as_stream_time_passes_and_not_by_the_wall_clock(project: Path) -> None:
    topics = ["tumbling_out", "sliding_out", "sessions_out", "suppressed_out", "sliding_suppressed_out"]
    with TopologyTestDriver(project, "closed") as driver:
        driver.pipe_input("a", records(("x", 1, 1), ("y", 1, 2), ("x", 1, 5)))
        driver.advance_wall_clock("1m")
        driver.advance("0s")
        assert [written(driver, topic) for topic in topics] == [[]] * 5
        driver.advance("30s")
        found = {topic: written(driver, topic, "n") for topic in topics}
        assert written(driver, "reduced_out", "v") == written(driver, "classed_out", "n") == [("x", 5, 2), ("y", 2, 1)]
        assert driver.time == 95_000
    final = [("x", 5, 2), ("y", 2, 1)]
    assert found == {
        "tumbling_out": final,
        "sliding_out": [("x", 5, 2), ("x", 5, 1), ("y", 2, 1)],
        "sessions_out": final,
        "suppressed_out": final,
        "sliding_suppressed_out": [("x", 5, 2), ("x", 5, 1), ("y", 2, 1)],
    }


def test_nothing_is_closed_before_its_time_and_twice(project: Path) -> None:
    with TopologyTestDriver(project, "closed") as driver:
        driver.pipe_input("a", records(("x", 1, 1)))
        came = []
        for _ in range(6):
            driver.advance("2s")
            came.append([len(written(driver, f"{name}_out")) for name in ("tumbling", "suppressed", "sessions")])
        assert came == [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, 0], [0, 0, 1]]


def test_record_from_before_is_late_once_time_has_passed(project: Path) -> None:
    with TopologyTestDriver(project, "closed") as driver:
        driver.pipe_input("a", records(("x", 1, 1)))
        driver.advance("1m")
        driver.pipe_input("a", records(("x", 1, 50), ("y", 1, 50)))
        assert driver.dropped == {"late": 14}


def test_changes_and_records_that_wait_go_on(project: Path) -> None:
    with TopologyTestDriver(project, "waiting") as driver:
        driver.pipe_input("a", records(("x", 1, 1), ("y", 1, 2), ("x", 1, 5)))
        driver.pipe_input("b", records(("x", 7, 3), ("z", 9, 2), column="w"))
        assert written(driver, "paired_out", "v", "w") == [("x", 3, 1, 7), ("x", 5, 1, 7)]
        driver.advance("7s")
        assert written(driver, "paired_out") == []
        driver.advance("1s")
        assert written(driver, "paired_out", "v", "w") == [("y", 2, 1, None), ("z", 2, None, 9)]
        driver.advance("48s")
        assert written(driver, "totals_out", "n") == [("x", 5, 2)]
        driver.advance("1s")
        assert written(driver, "totals_out", "n") == [("y", 2, 1)]


def test_buffer_counts_what_waits_after_time_has_passed(project: Path) -> None:
    with TopologyTestDriver(project, "waiting") as driver:
        driver.pipe_input("a", records(("x", 1, 1), ("y", 1, 2), ("z", 1, 3)))
        driver.advance("5m")
        assert len(written(driver, "totals_out")) == 3
        driver.pipe_input("a", records(*((each, 1, 400) for each in "abcdefghij")))
        waiting = 10 - len(written(driver, "totals_out"))
        driver.advance("5m")
        assert (waiting <= 10, len(written(driver, "totals_out"))) == (True, waiting)


@TASKS_FIRST
def test_time_reaches_a_step_behind_what_the_steps_above_give_up(project: Path, engine: ExpressionEngine) -> None:
    """Through a repartition topic too: windows of ten seconds close first, and what they give is in time."""
    with TopologyTestDriver(project, "cascade", engine=engine) as driver:
        driver.pipe_input("a", records(("x", 1, 1), ("y", 1, 2), ("x", 1, 5), ("x", 1, 15)))
        driver.advance("2h")
        assert written(driver, "minutes_out", "tens", "n") == [(1, 15, 3, 4)]
        assert driver.dropped == {}


@ENGINES
def test_punctuations_run_behind_what_came_up_to_then(project: Path, engine: ExpressionEngine) -> None:
    with TopologyTestDriver(project, "ticking", engine=engine) as driver:
        driver.pipe_input("a", records(("x", 1, 1), ("x", 1, 5)))
        assert written(driver, "ticks") == []
        driver.advance("30s")
        came = [("x", 5, "came", 2, None), ("x", 35, "stream", 2, None), ("x", 35, "wall", 2, None)]
        assert written(driver, "ticks", "what", "n", "topic") == came
        driver.advance_wall_clock("30s")
        assert written(driver, "ticks", "what") == [("x", 65, "wall")]
        driver.advance("10s")
        assert written(driver, "ticks", "what") == [("x", 45, "stream")]
        driver.advance("2h")  # the row has expired by then
        assert (written(driver, "ticks"), driver.query("seen")) == ([], [])


@ENGINES
def test_row_that_fails_as_time_passes_is_the_fault_of_no_record(project: Path, engine: ExpressionEngine) -> None:
    with TopologyTestDriver(project, "failing", engine=engine) as driver:
        driver.pipe_input("a", records(("x", 0, 1), ("y", 1, 2)))
        with pytest.raises(DrivenRunError) as failed:
            driver.advance("30s")
    assert "topologies/failing.yml:10: " in failed.value.cause
    assert "it was raised as time passed, without a record" in failed.value.cause


@TASKS_FIRST
def test_row_that_had_waited_in_a_join_is_not_said_to_be_the_fault_of_the_record_that_it_came_out_with(
    project: Path, engine: ExpressionEngine
) -> None:
    with TopologyTestDriver(project, "lonely", engine=engine) as driver:
        driver.pipe_input("a", records(("x", 0, 1)))
        with pytest.raises(DrivenRunError) as failed:
            driver.pipe_input("a", records(("x", 4, 21), ("x", 5, 22)))
    said = str(failed.value)
    assert said.count("cannot be processed") == 1
    assert "yml:7: a row that was held back at topologies/lonely.yml:7, and came out with record a[" in said
    assert "without this record, they would fail with the next one" in said


@TASKS_FIRST
def test_row_that_had_waited_in_a_join_stops_its_task_where_records_whose_own_rows_fail_are_left_out(
    project: Path, engine: ExpressionEngine
) -> None:
    with TopologyTestDriver(project, "skipping", engine=engine) as driver:
        driver.pipe_input("b", records(("x", 1, 1), column="w"))
        driver.pipe_input("a", records(("x", 0, 2), ("x", 5, 3)))
        assert written(driver, "skipping_out", "share") == [("x", 3, 2.0)]
        assert driver.dropped == {"skipped": 1}
        driver.pipe_input("a", records(("x", 0, 12)))  # nobody to match: it waits
        with pytest.raises(DrivenRunError) as failed:
            driver.pipe_input("a", records(("x", 0, 31), ("x", 5, 32)))
        assert driver.dropped == {"skipped": 1}
    assert "yml:8: a row that was held back at topologies/skipping.yml:8, and came out with record a[" in str(
        failed.value
    )


@TASKS_FIRST
def test_row_that_was_held_back_stops_its_task_and_takes_no_record_with_it(
    project: Path, engine: ExpressionEngine
) -> None:
    with TopologyTestDriver(project, "failing", engine=engine) as driver:
        driver.pipe_input("a", records(("x", 0, 1), ("x", 1, 2)))
        driver.pipe_input("a", records(("x", -1, 3)))
        with pytest.raises(DrivenRunError) as failed:
            driver.pipe_input("a", records(("x", 4, 21), ("x", 1, 22)))
        assert driver.dropped == {}
    said = str(failed.value)
    assert "yml:10: a row that was held back at topologies/failing.yml:9, and came out with record a[" in said
    assert "without this record, they would fail with the next one" in said
    assert said.count("cannot be processed") == 1
