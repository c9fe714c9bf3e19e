"""A stream of cases: one line in, one line out, and no line is another's trouble."""

from __future__ import annotations

import gc
import io
import json
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from headwater.errors import HeadwaterError
from headwater.runtime.assignment.assignor import AssignmentError, TaskAssignment, TaskAssignor
from headwater.runtime.assignment.balanced import BalancedCount
from headwater.runtime.assignment.cases import run_cases
from headwater.runtime.assignment.cluster import ApplicationState

GOOD = b'{"id": "good", "clients": [{"process_id": "a", "threads": 1}], "tasks": [{"id": "0_0"}]}'
PLACED = {"a": {"active": ["0_0"], "standby": []}}


def balanced(name: str, options: Mapping[str, Any]) -> TaskAssignor:
    return BalancedCount()


def answered(text: bytes, make: Any = balanced, longest: int = 2**20) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run_cases(io.BytesIO(text), make, longest)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_each_line_has_its_answer(end: bytes) -> None:
    found = answered(GOOD + b"\n" + GOOD + end)

    assert [each["assignments"] for each in found] == [PLACED, PLACED]


def test_bad_line_is_an_answer_with_its_number_and_the_rest_goes_on() -> None:
    found = answered(b'\n{"id": 5, "clients": 1, "tasks": []}\n\xff\n  \t\n' + GOOD)

    assert [each.get("line") for each in found] == [2, 3, None]
    assert found[0] == {
        "id": 5,
        "line": 2,
        "assignments": {},
        "followup_deadlines": {},
        "error": "line 2: clients: expected a list, found 1",
        "validation": "NONE",
    }
    assert found[1]["error"].startswith("line 3: not UTF-8")
    assert found[2]["assignments"] == PLACED


def test_mark_at_the_start_of_a_file_is_passed_over() -> None:
    assert answered(b"\xef\xbb\xbf" + GOOD)[0]["error"] is None
    assert answered(GOOD + b"\n\xef\xbb\xbf" + GOOD)[1]["error"].startswith("line 2: not JSON")


@pytest.mark.parametrize("rest", [GOOD, b""])
def test_line_that_is_too_long_is_an_error_and_the_next_is_read(rest: bytes) -> None:
    found = answered(b"[" * 3_000_000 + b"\n" + rest)

    assert found[0]["error"] == "line 1: longer than 1,048,576 bytes"
    assert [each["id"] for each in found[1:]] == ["good"] * bool(rest)


def test_long_line_is_a_case_like_any_other() -> None:
    tags = {"note": "x" * 10_000_000}
    line = json.dumps({"clients": [{"process_id": "a", "threads": 1, "tags": tags}], "tasks": [{"id": "0_0"}]})

    assert answered(line.encode(), longest=2**26)[0]["assignments"] == PLACED


class Faulty:
    """An assignor that prints, and then fails in a way of its own."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        print("here")
        raise self.error

    def on_assignment_computed(self, assignment: TaskAssignment, error: AssignmentError) -> None:
        pass


class AsksForLags(BalancedCount):
    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        for client in application_state.client_states(compute_task_lags=True).values():
            for task in application_state.all_tasks:
                client.lag_for(task)
        return super().assign(application_state)


@pytest.mark.parametrize(
    ("assignor", "error"),
    [
        (Faulty(KeyError("x")), "the assignor high_availability failed: KeyError: 'x'"),
        (Faulty(HeadwaterError("no room", "add clients")), "no room (add clients)"),
        (AsksForLags(), "no lag of task 0_0 on a"),
    ],
)
def test_error_of_an_assignor_is_that_case_s_answer(
    assignor: TaskAssignor, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answered(GOOD, lambda name, options: assignor)

    assert (found[0]["id"], found[0]["error"]) == ("good", error)
    assert capsys.readouterr().out == ""


def test_memory_does_not_grow_with_the_lines() -> None:
    class Endless(io.RawIOBase):
        def __init__(self, lines: int) -> None:
            self.left = lines

        def readline(self, size: int | None = -1) -> bytes:
            self.left -= 1
            return GOOD + b"\n" if self.left >= 0 else b""

    def peak(lines: int) -> int:
        tracemalloc.start()
        for number, _ in enumerate(run_cases(Endless(lines), balanced)):  # type: ignore[arg-type]
            if number % 100 == 0:
                gc.collect()
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    gc.freeze()  # what was there before need not be looked at each time
    peak(10)
    assert peak(1_000) < peak(200) + 10_000


class Unspeakable(Exception):
    """An error that fails when it is to be shown."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_error_that_cannot_be_shown_is_one_of_its_case_alone() -> None:
    def make(name: str, options: Mapping[str, Any]) -> TaskAssignor:
        raise Unspeakable

    found = answered(GOOD + b"\n" + GOOD, make)

    assert [each["error"] for each in found] == ["the assignor high_availability failed: Unspeakable"] * 2


def test_what_making_an_assignor_prints_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    def make(name: str, options: Mapping[str, Any]) -> TaskAssignor:
        print("made")
        return BalancedCount()

    assert answered(GOOD, make)[0]["assignments"] == PLACED
    assert capsys.readouterr() == ("", "made\n")
