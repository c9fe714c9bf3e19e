from __future__ import annotations

import errno
import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import MachineError
from headwater.runtime.driver import client_events, events
from headwater.runtime.driver.event_lines import JsonLines
from headwater.runtime.driver.results import ApplicationResult, RunResults
from headwater.runtime.driver.status import RunStatus
from headwater.runtime.placing.assigned import Move
from headwater.runtime.task_id import TaskId

PAGE = Path(__file__).parents[4] / "docs" / "json-log.md"
STATUS = RunStatus("a-b", 1, "host", None, 0, 0, 1000, 0, 0, False, ())


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_event_is_a_line_with_its_facts():
    stream = io.StringIO()
    log = JsonLines(stream)
    move = Move(TaskId(0, 1, "sums"), "client-1", "client-2", {"client-2": 7})
    log.on(client_events.TasksPlaced("a-b", "sticky", 2, 3, 0, (move,), (TaskId(1, 0),)))
    log.on(client_events.ClientLost("a-b", "client-1"))
    log.on(events.StatusTaken("a-b", STATUS))
    log.on(events.ApplicationStopped("a-b", "fenced", 10, 2))

    placed, gone, stopped = lines_of(stream)
    assert list(placed) == ["time", "level", "event", "application", "message", "fields"]
    assert datetime.fromisoformat(placed["time"]).tzinfo is not None
    assert (placed["level"], placed["event"], placed["application"]) == ("info", "tasks_placed", "a-b")
    assert placed["fields"]["moves"][0]["task"] == "0_1"
    assert placed["fields"]["moves"][0]["lags"] == {"client-2": 7}
    assert placed["fields"]["unassigned"] == ["1_0"]
    assert (gone["level"], gone["fields"]) == ("warning", {"client": "client-1", "silent": None})
    assert (stopped["level"], stopped["event"]) == ("error", "application_stopped")


def test_store_that_is_restored_has_a_line_every_ten_seconds():
    stream, now = io.StringIO(), iter([0.0, 4.0, 9.9, 10.0, 12.0, 20.0])
    log = JsonLines(stream, lambda: next(now))
    for position in range(6):
        log.on(client_events.StoreRestoring("a-b", "client-1", "totals", 0, position, 100))

    assert [line["fields"]["position"] for line in lines_of(stream)] == [3, 5]


def test_error_has_its_type_and_its_way_out():
    stream = io.StringIO()
    JsonLines(stream).failed(MachineError.from_error(OSError(28, "No space left on device", "/data")))
    JsonLines(stream).failed(ZeroDivisionError())

    full, bug = lines_of(stream)
    assert (full["level"], full["event"], full["application"]) == ("error", "error", None)
    assert full["message"] == "/data: No space left on device"
    assert full["fields"] == {"type": "MachineError", "hint": "make room on that disk and run again"}
    assert (bug["message"], bug["fields"]["type"]) == ("ZeroDivisionError", "ZeroDivisionError")


def test_failure_is_told_once_when_it_happens():
    stream = io.StringIO()
    log = JsonLines(stream)
    log.on(events.ApplicationStopped("a-b", "failed", 10, 2, "the disk is full"))
    log.ended(RunResults(0, 1.0, (ApplicationResult("a-b", "failed", 1, 2, 10, 1.0, error="the disk is full"),)))

    assert stream.getvalue().count("the disk is full") == 1
    stopped, ended, over = lines_of(stream)
    assert stopped["fields"]["error"] == "the disk is full"
    assert (ended["event"], ended["level"], ended["message"]) == ("application_ended", "error", "a-b: failed")
    assert (ended["fields"]["status"], over["fields"]["failed"]) == ("failed", True)


def test_stream_that_nobody_reads_does_not_end_the_run():
    class Gone(io.StringIO):
        asked = 0

        def write(self, text: str) -> int:
            self.asked += 1
            raise BrokenPipeError

    stream = Gone()
    log = JsonLines(stream)
    log.on(client_events.ClientLost("a-b", "client-1"))
    log.on(client_events.ClientLost("a-b", "client-2"))
    assert stream.asked == 1


def test_line_for_which_the_disk_has_no_room_is_left_out_and_the_next_one_is_written():
    class Full(io.StringIO):
        full = True

        def write(self, text: str) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(text)

    stream = Full()
    log = JsonLines(stream)
    log.on(client_events.ClientLost("a-b", "client-1"))
    stream.full = False
    log.on(client_events.ClientLost("a-b", "client-2"))
    assert [line["fields"]["client"] for line in lines_of(stream)] == ["client-2"]


@pytest.mark.parametrize(
    "name",
    [
        "metrics_served",
        "compile_started",
        "finding",
        "topic_seeded",
        "run_started",
        "application_ended",
        "run_ended",
        "error",
    ],
)
def test_page_lists_the_events_of_the_command(name: str) -> None:
    assert f"| `{name}` |" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_text_that_the_stream_cannot_take_is_escaped_and_stays_the_same(encoding):
    file = io.BytesIO()
    stream = io.TextIOWrapper(file, encoding=encoding)
    said = "Straße 日本 /data/\udcff.seg"
    JsonLines(stream).write("info", "event", said, {"path": said})
    line = json.loads(file.getvalue())
    assert line["fields"] == {"path": said}
    assert line["message"] == "Straße 日本 /data/\\udcff.seg"  # for people, who may print it


def test_stream_that_was_closed_ends_no_run(tmp_path):
    stream = (tmp_path / "log").open("w")
    log = JsonLines(stream)
    stream.close()
    log.write("info", "event", "text", {})
    log.write("info", "event", "text", {})
