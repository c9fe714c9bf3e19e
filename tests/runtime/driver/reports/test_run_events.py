import errno
import io
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import pytest

from headwater.readable_text import counted
from headwater.runtime.driver.client_events import AssignmentFailed, ClientLost, LogCleaned, TasksPlaced, UpkeepFailed
from headwater.runtime.driver.epoch_reports import EpochTrace
from headwater.runtime.driver.errors import Stop, WaitsFor
from headwater.runtime.driver.event_lines import JsonLines, Lines
from headwater.runtime.driver.events import (
    ApplicationStopped,
    EpochCommitted,
    Event,
    Level,
    OnTerminal,
    TaskBeginsAgain,
    TaskFailed,
    TasksWait,
    TopicRepartitioned,
    WaitEnded,
    Waiting,
)
from headwater.runtime.driver.status import RunStatus
from headwater.runtime.placing.assigned import Move
from headwater.runtime.task_id import TaskId

PAGE = Path(__file__).parents[4] / "docs" / "json-log.md"
GOLDEN = Path(__file__).parent / "events.golden.json"
VALUES = {
    str: "abc",
    int: 1500,
    float: 2.5,
    str | None: None,
    float | None: None,
    int | None: None,
    tuple[str, ...]: ("a", "b"),
    tuple[TaskId, ...]: (TaskId(0, 1, "sums"), TaskId(1, 0, "late")),
    tuple[Move, ...]: (Move(TaskId(0, 1, "sums"), "client-1", "client-2", {"client-2": 7}),),
    Mapping[str, int]: {"x": 3},
    WaitsFor: WaitsFor("a-c", "not_running"),
    EpochTrace: EpochTrace("late", "client-1", 4, 0.0, 1.0, 2.0, 3.5, ()),
    RunStatus: RunStatus("a-b", 1, "host", None, 0, 0, 1000, 0, 0, False, ()),
    Literal["fold", "remove", "clean"]: "fold",
}
"""A value for each type of a field."""


def event_kinds(above: type[Event] = Event) -> list[type[Event]]:
    """All classes of events that can happen."""
    return [kind for below in above.__subclasses__() for kind in event_kinds(below) or [below]]


def example(kind: type[Event]) -> Event:
    types = get_type_hints(kind, localns={"EpochTrace": EpochTrace, "RunStatus": RunStatus})
    return kind(**{each.name: VALUES[types[each.name]] for each in fields(kind)})


def test_every_event_has_a_sentence_a_level_and_its_place_in_logs_and_on_terminals(update_golden: bool) -> None:
    """A new event is in the golden file, and nowhere else."""
    found = {}
    for event in map(example, event_kinds()):
        assert event.level in get_args(Level)
        assert event.on_terminal in get_args(OnTerminal)
        stream = io.StringIO()
        JsonLines(stream).on(event)
        line = json.loads(stream.getvalue() or "{}")
        if line:
            assert (line["event"], line["message"], line["level"]) == (event.name(), event.text, event.level)
        found[event.name()] = {
            "level": event.level,
            "text": event.text,
            "note": event.note,
            "on_terminal": event.on_terminal,
            "needs_run": event.needs_run,
            "fields": line.get("fields"),
        }
    if update_golden:
        lines = (f"{json.dumps(name)}: {json.dumps(parts)}" for name, parts in found.items())
        GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    assert found == json.loads(GOLDEN.read_text("utf-8"))


def test_page_lists_the_events_with_their_fields(update_golden: bool) -> None:
    rows = [
        f"| `{kind.name()}` | {kind.usual_level} | {', '.join(f'`{each.name}`' for each in fields(kind)[1:])} |"
        for kind in event_kinds()
        if kind.logged
    ]
    listed = "\n".join(["| event | level | fields |", "|---|---|---|", *rows])
    page = PAGE.read_text("utf-8")
    renewed = re.sub(
        r"(<!-- events -->\n).*(<!-- /events -->)", lambda found: f"{found[1]}{listed}\n{found[2]}", page, flags=re.S
    )
    if update_golden:
        PAGE.write_text(renewed, "utf-8")
    assert PAGE.read_text("utf-8") == renewed, "renew it with pytest tests/runtime/driver/reports --update-golden"


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2000, "2,000 records")])
def test_only_one_thing_is_singular(number: int, text: str) -> None:
    assert counted(number, "record") == text


def test_waiting_agrees_with_the_number() -> None:
    assert Waiting("p-c", 1, ("p-a",)).said == "1 record waits for p-a"
    assert Waiting("p-c", 2, ("p-a", "p-b")).said == "2 records wait for p-a, p-b"
    assert Waiting("p-c", 2, ("p-c",)).said == "2 records wait for tasks that have stopped"
    assert Waiting("p-c", 2, ()).said == "2 records wait for tasks that no client runs"


def test_committed_epoch_is_told_with_rate_and_lag() -> None:
    assert (
        EpochCommitted("flights-delays", "late", "0", 7, 1000, 20, 0.5).text
        == "flights-delays/late: commit 7, 1,000 records (2,000/s), lag 20"
    )


def test_repartitioned_topic_is_told_with_what_has_changed_only() -> None:
    more = TopicRepartitioned("shop-seed", "orders", 10, 2, 4, "a string", "a string", 0.5)
    assert more.text == "orders: 10 records put into 4 partitions instead of 2, in 0.5 s"
    other_key = TopicRepartitioned("shop-seed", "orders", 10, 4, 4, "a string", "b string", 0.5)
    assert other_key.text == "orders: 10 records put into 4 partitions, by the key b string, in 0.5 s"


def test_failed_record_is_told_with_its_message() -> None:
    told = TaskFailed("flights-delays", "late", 2, "x.yml:3: cannot be processed", "fix the step").text

    assert told == "flights-delays/late: task 2 stopped: x.yml:3: cannot be processed\n    hint: fix the step"


AT_A_RECORD = Stop("division by zero", "words", 0, 3, "t.yml:7")
STANDS = "which has stopped at record words[0]@3 (t.yml:7)"
HAS = "which has unread records"


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (
            WaitsFor("a-b", "stopped", "late", 2, AT_A_RECORD),
            f"task 2 of late, {STANDS}; correct the step or set `on_error`, start the run of a-b again, and they "
            "continue",
        ),
        (
            WaitsFor("a-c", "stopped", "late", 2, AT_A_RECORD),
            f"task 2 of a-c/late, {STANDS}: division by zero; correct the step or set `on_error`, start the run of a-c "
            "again, and they continue",
        ),
        (
            WaitsFor("a-b", "stopped", "late", 2, replace(AT_A_RECORD, held_at="t.yml:5")),
            f"task 2 of late, {STANDS}, with which a row came out that was held back at t.yml:5; correct the step, "
            "start the run of a-b again, and they continue",
        ),
        (
            WaitsFor("a-b", "stopped", "late", 2, replace(AT_A_RECORD, waited_at="t.yml:5")),
            f"task 2 of late, {STANDS}, or at a row that had waited in the join at t.yml:5 and came out with it; "
            "correct the step, start the run of a-b again, and they continue",
        ),
        (
            WaitsFor("a-b", "stopped", "late", 2, replace(AT_A_RECORD, never_left_out=True)),
            f"task 2 of late, {STANDS}; correct the step, start the run of a-b again, and they continue",
        ),
        (
            WaitsFor("a-c", "stopped", "late", 2, Stop("the disk is full")),
            "task 2 of a-c/late, which has stopped: the disk is full; remove the cause, start the run of a-c again, "
            "and they continue",
        ),
        (WaitsFor("a-c", "not_running"), f"a-c, {HAS} and does not run; run a-c, and they continue"),
        (
            WaitsFor("a-c", "unwritten", topic="words"),
            "a-c, which has not run yet with the flow that writes words; run a-c, and they continue",
        ),
        (WaitsFor("a-c", "paused"), f"a-c, {HAS} and is paused; `headwater resume` ends the pause, and they continue"),
        (WaitsFor("a-c", "silent"), f"a-c, {HAS} and may not run any more: its driver writes nothing"),
        (WaitsFor("a-c", "starting"), f"a-c, {HAS} and has not started yet"),
        (WaitsFor("a-c", "restoring", "late"), f"a-c/late, {HAS}, but not all of its stores yet"),
        (WaitsFor("a-b", "no_client", "late"), f"late, {HAS}, but no client for all of its tasks"),
        (WaitsFor("a-b", "behind", "late"), f"late, {HAS}"),
    ],
)
def test_tasks_that_wait_are_told_with_whom_they_wait_for_why_and_the_way_on(cause: WaitsFor, told: str) -> None:
    assert TasksWait("a-b", (TaskId(1, 0), TaskId(1, 1)), cause).text == f"a-b: tasks 1_0, 1_1 wait for {told}"


def test_end_of_a_wait_is_told_and_of_many_tasks_the_first_are_named() -> None:
    cause = WaitsFor("a-c", "stopped", "late", 2, AT_A_RECORD)
    one = WaitEnded("a-b", (TaskId(1, 0),), cause).text
    many = WaitEnded("a-b", tuple(TaskId(1, number) for number in range(12)), cause).text
    assert one == "a-b: task 1_0 does not wait for task 2 of a-c/late any more"
    assert many.startswith("a-b: tasks 1_0, 1_1, ")
    assert many.endswith(" 1_9 and 2 more do not wait for task 2 of a-c/late any more")


@pytest.mark.parametrize(("silent", "gone"), [(None, "is gone"), (31.4, "has been silent for 31 s: it counts as lost")])
def test_lost_client_is_told_and_whether_it_was_only_silent(silent: float | None, gone: str) -> None:
    told = ClientLost("flights-delays", "executor-1", silent).text

    assert told == f"flights-delays: executor-1 {gone}; its tasks go to other clients"


def test_task_that_begins_again_is_told_with_its_client_and_the_cause() -> None:
    told = TaskBeginsAgain("flights-delays", "late", 2, "client-1", "store /state/totals/2 is damaged: cut off").text

    assert told == (
        "flights-delays/late: task 2 restarts on client-1, while the others continue: "
        "store /state/totals/2 is damaged: cut off"
    )


@pytest.mark.parametrize(("work", "left"), [("fold", "old commits"), ("remove", "unused files")])
def test_upkeep_that_failed_is_told_with_what_stays_and_the_cause(work: Literal["fold", "remove"], left: str) -> None:
    told = UpkeepFailed("flights-delays", work, "/log/x: No space left on device").text

    assert told == (
        f"flights-delays: {left} stay in the log for now, as their removal failed: /log/x: No space left on device"
    )


def test_cleaning_that_failed_is_told_with_what_it_costs_and_the_cause() -> None:
    told = UpkeepFailed("flights-seed", "clean", "/log/x: No space left on device").text

    assert told == (
        "flights-seed: the log takes more space than it needs for now, as its cleaning failed: "
        "/log/x: No space left on device"
    )


def test_placed_tasks_are_told_with_where_the_state_of_those_that_move_was() -> None:
    moves = (
        Move(TaskId(0, 1), "client-2", "client-1", {"client-1": 0, "client-2": 1_200}),
        Move(TaskId(1, 0), None, "client-1"),
        Move(TaskId(1, 1), None, "client-1", emptied="client-1"),
    )

    told = TasksPlaced("a-b", "high_availability", 2, 3, 1, moves, (TaskId(1, 2),), 1_700_000_000_000).text

    assert told == (
        "a-b: high_availability has placed the tasks on 2 clients: 3 kept, 3 moved, 1 new, 1 unassigned (1_2); "
        "it asks for another assignment at 2023-11-14 22:13:20 UTC"
        "\n    0_1 from client-2 to client-1 (records behind: client-1 0, client-2 1,200)"
        "\n    1_0 from a client that is gone to client-1"
        "\n    1_1 from client-1, which has lost its state, to client-1"
    )


def test_of_many_moves_the_first_are_told() -> None:
    moves = tuple(Move(TaskId(0, number), "b", "a") for number in range(12))

    told = TasksPlaced("a-b", "mine", 2, 0, 0, moves, (), 2**70).text

    assert told.splitlines()[0].endswith(
        "12 moved, 0 new; it asks for another assignment at 1,180,591,620,717,411,303,424 ms since 1970"
    )
    assert told.splitlines()[-2:] == ["    0_9 from b to a", "    and 2 more"]


def test_failed_assignor_is_told_with_what_it_said_wrong() -> None:
    told = AssignmentFailed("a-b", "mine", "an active task on two clients: 0_0", ("c1: 0_0", "c2: 0_0")).text

    assert told == (
        "a-b: tasks stay where they were, and new ones are spread evenly, as assignor mine failed: "
        "an active task on two clients: 0_0\n    c1: 0_0\n    c2: 0_0"
    )


def test_end_is_told_with_its_reason() -> None:
    assert LogCleaned("a-b", 1, 1, 0.3).text == "a-b: log cleaned, 1 segment became 1 (0.3 s)"
    assert LogCleaned("a-b", 12, 1, 0.3).text == "a-b: log cleaned, 12 segments became 1 (0.3 s)"
    assert ApplicationStopped("a-b", "caught_up", 12_000, 3).text == "a-b: caught up, 12,000 records in 3 commits"


@pytest.mark.parametrize("failure", [BrokenPipeError(), OSError(errno.ENOSPC, "No space left on device"), ValueError()])
def test_line_that_nobody_takes_ends_no_run(failure: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        takes = False

        def write(self, text: str) -> int:
            if not self.takes:
                raise failure
            return super().write(text)

    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    lines = Lines()
    lines.on(ClientLost("a-b", "client-1"))
    stream.takes = True
    lines.on(ClientLost("a-b", "client-2"))
    monkeypatch.undo()
    assert stream.getvalue()[len("12:00:00 ") :] == "a-b: client-2 is gone; its tasks go to other clients\n"
