"""No test depends on how fast the machine is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.tests.waiting import wait_until

TESTS = Path(__file__).parent
PROGRAMS = sorted(path for path in TESTS.rglob("*.py") if path != TESTS / "waiting.py" and "expected" not in path.parts)

HURRIED = {
    "sleep": "sleeps",
    "Timer": "acts after a time",
    "timeout": "has a time limit of its own",
    "monotonic": "measures time",
    "perf_counter": "measures time",
}
WAITING = {"join", "wait", "result", "communicate", "get", "acquire", "run", "wait_procs", "check_output", "exception"}
"""Calls that take a `timeout`; of the first four it may also be the first argument."""


def findings(source: str) -> Iterator[str]:
    """Lines of a test that hang on time, and why."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in HURRIED:
            yield f"{node.lineno}: {node.attr} {HURRIED[node.attr]}"
        elif isinstance(node, ast.ImportFrom) and node.module in ("time", "threading"):
            for name in node.names:
                if name.name in HURRIED:
                    yield f"{node.lineno}: {name.name} {HURRIED[name.name]}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WAITING:
            first = node.args[0] if node.args and node.func.attr in ("join", "wait", "result") else None
            if isinstance(first, ast.Constant) and isinstance(first.value, int | float):
                yield f"{node.lineno}: {node.func.attr} gives up after a time"
            if any(word.arg == "timeout" for word in node.keywords):
                yield f"{node.lineno}: {node.func.attr} gives up after a time"


def test_tests_wait_for_facts_and_not_for_time() -> None:
    found = [f"{path.relative_to(TESTS)}:{each}" for path in PROGRAMS for each in findings(path.read_text())]

    assert found == [], "use wait_until of tests/waiting.py; a hang is ended by the time limit of pytest"


@pytest.mark.parametrize(
    "line",
    [
        "time.sleep(1)",
        "from time import sleep",
        "threading.Timer(0.1, kill)",
        "thread.join(60)",
        "future.result(timeout=9)",
        "subprocess.run(command, timeout=400)",
        "begun = time.monotonic()",
        "mark = pytest.mark.timeout(9)",
    ],
)
def test_line_that_hangs_on_time_is_found(line: str) -> None:
    assert len(list(findings(line))) == 1


def test_what_can_no_longer_come_is_not_waited_for() -> None:
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers)) is True
    with pytest.raises(AssertionError, match="it has ended"):
        wait_until(lambda: False, possible=lambda: False, why="it has ended")
