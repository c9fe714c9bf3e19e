"""The processors of docs/processors.md, from a project's folder to results, without Java."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater import TopologyTestDriver
from headwater.runtime.ir.topology import ExpressionEngine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "processors.md").read_text("utf-8")
FILES = re.findall(r"```(?:yaml|python)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
TOPICS = """
topics:
  clicks:
    partitions: 1
    key: {event_id: string}
    value: {event_id: string, page: string}
  steps_taken:
    partitions: 1
    key: {user: string}
    value: {step: string}
  moves:
    partitions: 3
    key: {move: bigint}
    value: {user: string}
  logins:
    partitions: 4
    key: {user: string}
    value: {at: int}
  device_failures:
    partitions: 1
    key: {device: string}
    value: {code: int}
  device_limits:
    partitions: 1
    key: {device: string}
    value: {most: int}
  device_readings:
    partitions: 1
    key: {device: string}
    value: {degrees: int}
"""
BEATING = """
from headwater import Record


class Beating:
    def init(self, context):
        self.context = context
        context.schedule("1h", "wall_clock", self.beat)

    def process(self, record):
        pass

    def beat(self, time):
        self.context.forward(Record({"user": "beat"}, {"step": self.context.task_id}, time))
"""
BEATS = """
topology: beats
flows:
  beating:
    from: steps_taken
    steps:
      - process: {function: functions.beating:Beating}
    to: beats
"""


COUNTING = """
from headwater import Record


class Counting:
    def init(self, context):
        self.context = context
        self.counts = context.store("counts")
        context.schedule("10s", "stream_time", self.tell)

    def process(self, record):
        row = self.counts.get(record.key)
        n = 1 if row is None else row.n + 1
        self.counts.put(record.key, {"n": n})
        if record.value.step == "boom":
            raise ValueError(n)

    def tell(self, time):
        for key, row in self.counts.all():
            self.context.forward(Record(key, row, time))
"""
COUNTS = """
topology: counts
stores:
  counts: {type: key_value, key: {user: string}, value: {n: bigint}}
flows:
  counting:
    from: steps_taken
    on_error: skip
    steps:
      - filter: step <> 'no'
      - process: {function: functions.counting:Counting, stores: [counts], value: {n: bigint}}
      - filter: n > 1
    to: counts
"""


BROUGHT = """
topology: brought
stores:
  seen: {type: key_value, key: {user: string}, value: {step: string}}
flows:
  moved:
    from: moves
    steps:
      - key_by: {user: user}
      - repartition: {partitions: 4}
      - process: {function: functions.passing:Passing, stores: [seen], options: {name: m}, value: {step: string}}
    to: moved_out
  logged:
    from: logins
    steps:
      - process: {function: functions.passing:Passing, stores: [seen], options: {name: l}, value: {step: string}}
    to: logged_out
"""
PASSING = """
from headwater import Record


class Passing:
    def __init__(self, name):
        self.name = name

    def init(self, context):
        self.context = context
        self.seen = context.store("seen")

    def process(self, record):
        row = self.seen.get(record.key)
        step = (row.step if row else "") + self.name
        self.seen.put(record.key, {"step": step})
        self.context.forward(record._replace(value={"step": step}))
"""
PASSED = """
topology: passed
stores:
  seen: {type: key_value, key: {user: string}, value: {step: string}}
flows:
  forked:
    from: first
    steps:
      - process: {function: functions.passing:Passing, stores: [seen], options: {name: c}}
    to: third
  first:
    from: steps_taken
    steps:
      - filter: step <> 'no'
      - process: {function: functions.passing:Passing, stores: [seen], options: {name: a}}
    to: firsts
  second:
    from: first
    steps:
      - process: {function: functions.passing:Passing, stores: [seen], options: {name: b}}
      - process: {function: functions.passing:Passing, stores: [seen], options: {name: d}}
      - filter: step <> 'acbd'
    to: seconds
  alone:
    from: steps_taken
    steps:
      - process: {function: functions.passing:Passing, stores: [seen], options: {name: e}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of the page."""
    root = tmp_path / "site"
    golden = ROOT / "tests" / "golden" / "windows" / "project"
    files = [(name, golden.joinpath(name).read_text()) for name in ("headwater.yml", "profiles.yml")]
    files += [("topics/topics.yml", TOPICS), ("functions/beating.py", BEATING), ("topologies/beats.yml", BEATS)]
    files += [("functions/passing.py", PASSING), ("topologies/passed.yml", PASSED), ("topologies/brought.yml", BROUGHT)]
    files += [("functions/counting.py", COUNTING), ("topologies/counts.yml", COUNTS)]
    for path, text in (*files, *FILES):
        root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(path).write_text(text)
    return root


def test_event_comes_again_once_it_has_expired(project: Path) -> None:
    with TopologyTestDriver(project, "clicks") as driver:
        for minutes in (0, 1, 2, 3):
            record = {"key": {"event_id": "e"}, "value": {"event_id": "e", "page": f"{minutes}"}}
            driver.pipe_input("clicks", [{**record, "timestamp": minutes * 60_000, "headers": {"h": "1"}}])
        found = [(each.value, each.timestamp, each.headers) for each in driver.read_output("unique_clicks")]
    assert found == [({"page": page}, int(page) * 60_000, {"h": "1"}) for page in ("0", "3")]


def test_pattern_is_found_or_given_up(project: Path) -> None:
    with TopologyTestDriver(project, "steps") as driver:
        taken = [
            ("ann", "a", 1),
            ("bob", "a", 2),
            ("ann", "b", 11),
            ("ann", "c", 21),
            ("bob", "b", 30),
            ("cid", "x", 99),
        ]
        rows = [{"key": {"user": u}, "value": {"step": s}, "timestamp": t * 1000} for u, s, t in taken]
        driver.pipe_input("steps_taken", rows[:3])
        driver.pipe_input("steps_taken", rows[3:])
        (match,), (late,) = driver.read_output("matches"), driver.read_output("timeouts")
        assert driver.query("progress") == []
    assert (match.key, match.value) == ({"user": "ann"}, {"a_ms": 1000, "b_ms": 11000, "c_ms": 21000})
    assert (late.key, late.value, late.timestamp) == ({"user": "bob"}, {"a_ms": 2000, "b_ms": 30000}, 99_000)


def test_windows_of_ten_minutes_back_are_counted(project: Path) -> None:
    minutes = [("a", 0), ("a", 0), ("b", 1), ("a", 9), ("b", 5), ("a", 10), ("a", 18), ("a", 5)]
    rows = [{"key": {"device": d}, "value": {"code": 1}, "timestamp": m * 60_000} for d, m in minutes]
    with TopologyTestDriver(project, "failures") as driver:
        driver.pipe_input("device_failures", rows[:4])
        driver.pipe_input("device_failures", rows[4:])
        found = [(each.key["device"], each.value, each.timestamp) for each in driver.read_output("alarms")]
        # What starts ten minutes before stream time has expired, and is not kept where it comes as late.
        kept = [
            (row.key["device"], row.key["window_start"] // 60_000, row.value["n"]) for row in driver.query("failures")
        ]
        assert driver.dropped == {"late": 1}
    nine = 9 * 60_000
    assert found == [("a", {"first_ms": 0, "n": 3}, nine), ("a", {"first_ms": nine, "n": 3}, 2 * nine)]
    assert kept == [("a", 9, 1), ("a", 10, 1), ("a", 18, 1)]


def test_visit_comes_once_it_has_ended(project: Path) -> None:
    steps = [("ann", 0), ("bob", 10), ("ann", 29), ("ann", 59), ("bob", 41), ("cid", 90), ("bob", 91)]
    rows = [{"key": {"user": u}, "value": {"step": "x"}, "timestamp": m * 60_000} for u, m in steps]
    with TopologyTestDriver(project, "visits") as driver:
        for row in rows:
            driver.pipe_input("steps_taken", [row])
        found = [
            (each.key["user"], each.value["steps"], each.timestamp // 60_000)
            for each in driver.read_output("ended_visits")
        ]
        bounds = [
            (row.key["window_start"] // 60_000, row.key["window_end"] // 60_000) for row in driver.query("visits")
        ]
    assert found == [("bob", 1, 10), ("ann", 3, 59), ("bob", 1, 41)]
    assert sorted(bounds) == [(90, 90), (91, 91)]


@pytest.mark.parametrize("engine", ["task", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.soak])])
def test_processors_share_a_store_record_by_record(project: Path, engine: ExpressionEngine) -> None:
    limits = {"key": {"device": "a"}, "value": {"most": 20}, "timestamp": 10}
    degrees = [(5, 99), (20, 21), (30, 20), (40, None), (50, 22), (60, 23), (80, 50)]
    readings = [{"key": {"device": "a"}, "value": {"degrees": d}, "timestamp": t} for t, d in degrees]
    with TopologyTestDriver(project, "readings", engine=engine) as driver:
        driver.pipe_input("device_limits", [limits, {**limits, "value": {"most": 40}, "timestamp": 70}])
        driver.pipe_input("device_readings", readings)
        found = [each.value["degrees"] for each in driver.read_output("readings_above")]
        rows = [row.value for row in driver.query("limits")]
    # Records that one call pipes in are taken before those of the next.
    assert (found, rows) == ([], [{"most": 40, "above": 2}])
    with TopologyTestDriver(project, "readings", engine=engine) as driver:
        driver.pipe_input("device_limits", [limits])
        for reading in readings:
            driver.pipe_input("device_readings", [reading])
        driver.pipe_input("device_limits", [{**limits, "value": {"most": 40}, "timestamp": 90}])
        found = [each.value["degrees"] for each in driver.read_output("readings_above")]
        rows = [row.value for row in driver.query("limits")]
    assert (found, rows) == ([22], [{"most": 40, "above": 0}])


@pytest.mark.parametrize("engine", ["task", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_one_processor_forwards_another_one_sees_at_once(project: Path, engine: ExpressionEngine) -> None:
    taken = [("ann", "x"), ("ann", "no"), ("bob", "x"), ("ann", "x")]
    rows = [{"key": {"user": u}, "value": {"step": s}, "timestamp": t} for t, (u, s) in enumerate(taken)]
    with TopologyTestDriver(project, "passed", engine=engine) as driver:
        driver.pipe_input("steps_taken", rows)
        found = {
            topic: [(each.key["user"], each.value["step"]) for each in driver.read_output(topic)]
            for topic in ("firsts", "seconds", "third")
        }
        kept = {row.key["user"]: row.value["step"] for row in driver.query("seen")}
    assert found == {
        "firsts": [("ann", "a"), ("bob", "a"), ("ann", "acbdeea")],
        "third": [("ann", "ac"), ("bob", "ac"), ("ann", "acbdeeac")],
        "seconds": [("ann", "acbdeeacbd")],
    }
    assert kept == {"ann": "acbdeeacbde", "bob": "acbde"}


def test_processors_share_a_store_where_a_topic_brings_the_records_of_one_to_the_keys_of_the_other(
    project: Path,
) -> None:
    users = ["ann", "bob", "cid", "dan", "eve"]
    with TopologyTestDriver(project, "brought") as driver:
        for time, (number, user) in enumerate([(n, user) for n in range(2) for user in users]):
            move = {"key": {"move": time}, "value": {"user": user}, "timestamp": 2 * time}
            driver.pipe_input("moves", [move])
            login = {"key": {"user": user}, "value": {"at": number}, "timestamp": 2 * time + 1}
            driver.pipe_input("logins", [login])
        kept = {row.key["user"]: row.value["step"] for row in driver.query("seen")}
    assert kept == dict.fromkeys(users, "mlml")


def test_wall_clock_goes_on_by_advance(project: Path) -> None:
    with TopologyTestDriver(project, "beats") as driver:
        driver.pipe_input("steps_taken", [{"key": {"user": "ann"}, "value": {"step": "a"}, "timestamp": 5}])
        for duration in ("59m", "90m", "1h"):
            driver.advance(duration)
        times = [record.timestamp for record in driver.read_output("beats")]
    assert times == [5 + 149 * 60_000, 5 + 209 * 60_000]


def test_totals_of_batches_are_kept(project: Path) -> None:
    (project / "topics" / "payments.yml").write_text(
        "topics:\n  payments: {partitions: 1, key: {account: string}, value: {amount: bigint}}\n"
    )
    (project / "topologies" / "totals.yml").write_text(
        "topology: totals\n"
        "stores:\n  totals: {type: key_value, key: {account: string}, value: {total: bigint}}\n"
        "flows:\n  adding:\n    from: payments\n    to: added\n    steps:\n"
        "      - process: {function: functions.totals:Totals, stores: [totals]}\n"
    )
    with TopologyTestDriver(project, "totals") as driver:
        for amounts in ((1, 2, 3), (10, 20)):
            driver.pipe_input("payments", [{"account": "ab"[amount % 2], "amount": amount} for amount in amounts])
        rows = {row.key["account"]: row.value["total"] for row in driver.query("totals")}
    assert rows == {"a": 32, "b": 4}


@pytest.mark.parametrize("engine", ["task", pytest.param("spark", marks=pytest.mark.spark)])
def test_processor_between_expressions_does_the_same_on_spark(project: Path, engine: ExpressionEngine) -> None:
    """Also where the records were taken in another stage, of which one moves the time and goes no further."""
    taken = [("ann", "a", 1), ("bob", "boom", 2), ("ann", "b", 3), ("bob", "a", 4), ("bob", "b", 5), ("cid", "no", 12)]
    taken += [("ann", "boom", 19), ("ann", "c", 18), ("cid", "no", 40)]
    rows = [{"key": {"user": u}, "value": {"step": s}, "timestamp": t * 1000} for u, s, t in taken]
    with TopologyTestDriver(project, "counts", engine=engine) as driver:
        driver.pipe_input("steps_taken", rows[:4])
        driver.pipe_input("steps_taken", rows[4:])
        found = [(each.key["user"], each.value["n"], each.timestamp // 1000) for each in driver.read_output("counts")]
        assert driver.dropped == {"skipped": 2}
    assert found == [("ann", 2, 12), ("bob", 2, 12), ("ann", 3, 40), ("bob", 2, 40)]
