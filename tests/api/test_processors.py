"""The processors of docs/processors.md, from a project's folder to results, without Java."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater import TopologyTestDriver

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


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project of the page."""
    root = tmp_path / "site"
    golden = ROOT / "tests" / "golden" / "windows" / "project"
    files = [(name, golden.joinpath(name).read_text()) for name in ("headwater.yml", "profiles.yml")]
    files += [("topics/topics.yml", TOPICS), ("functions/beating.py", BEATING), ("topologies/beats.yml", BEATS)]
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


def test_wall_clock_goes_on_by_advance(project: Path) -> None:
    with TopologyTestDriver(project, "beats") as driver:
        driver.pipe_input("steps_taken", [{"key": {"user": "ann"}, "value": {"step": "a"}, "timestamp": 5}])
        for duration in ("59m", "90m", "1h"):
            driver.advance(duration)
        times = [record.timestamp for record in driver.read_output("beats")]
    assert times == [5 + 149 * 60_000, 5 + 209 * 60_000]
