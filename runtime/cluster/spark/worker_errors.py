"""What Spark's driver learns about an error in the epoch's job: the facts from a worker, or what Spark says.

From an exception in a worker Spark brings only the text of its traceback to the driver. So the last exception that a
worker raises has the facts as one line of JSON in its text, and the driver reads them from there.
"""

from __future__ import annotations

import re

from ...dataclass_json import from_json
from ...engine.failed_stage import Facts, StageFailedError
from .jvm import SparkEndedError
from .runner import without_advice

_FACTS = re.compile(rf"\b{StageFailedError.__name__}: (?P<facts>\{{[^\n]*\}})")

_RAISED = re.compile(r"^[A-Za-z_][\w.]*: \S")
"""The last line of a Python traceback."""

_CRASHED = "Python worker exited unexpectedly"
"""Spark's message for a worker that was killed or crashed."""

_ENDED = re.compile(rf"{_CRASHED} \(crashed\)(?P<told>: *(?:Fatal Python error: (?P<crash>[^\n]+))?)?")
"""The same, and what Python's fault handler told of it, if it was on."""

UNKNOWN_SIGNAL = "unknown signal"
"""What a worker has died of where nothing is told, also not that it was not its own fault."""

_FRAME = re.compile(r'^\s*File "(?P<path>functions/[^"\n]+)", line (?P<line>\d+) in (?P<name>\S+)', re.MULTILINE)
"""A call in a project's functions, as Python's fault handler prints it: the last call first."""

_AGAIN = (
    "nothing of this epoch is committed; run again: it goes on from the last commit. If its worker dies again, look "
    "for what ends it: code that calls `os._exit`, a package in C, or want of memory"
)

_FATAL = re.compile(r"java\.lang\.(?P<name>StackOverflowError|OutOfMemoryError)(?:: (?P<text>[^\n]*))?")
"""Errors of the JVM that a value can cause."""

_TOO_LARGE = re.compile(r"java\.lang\.OutOfMemoryError|\bOversizedAllocationException\b")
"""Errors of the JVM that rows can cause together, though each may be none too large."""

_THREADS = re.compile(r"java\.lang\.OutOfMemoryError: [Uu]nable to create (?:new )?native thread")
"""An error of the JVM that no value causes: the machine gives it no further thread."""

_JAVA = re.compile(r"(?:Caused by)?: (?P<error>[\w.$]+(?:Exception|Error))(?:: (?P<text>.*))?$")
"""How py4j prints an error of Java, and Java the cause of one."""

_STACK = (
    "the value is too long for an expression that calls itself for each part of it (java.lang.StackOverflowError); "
    "a regular expression does so for a repeated group: write [ab]* for (a|b)*"
)


def facts_of(error: Exception) -> Facts:
    """The facts about an error that Spark raised in the driver for a job."""
    if (said := worker_facts(error)) is not None:
        return said
    if (machine := _THREADS.search(str(error))) is not None:
        return Facts(
            "outside",
            f"the machine gave Spark's JVM no further thread ({machine[0]})",
            hint="raise the number of processes that this user may have (ulimit -u), or close other programs",
        )
    if (ended := SparkEndedError.of(error)) is not None:
        by_records = (
            "run again; if it ends at the same records, raise `driver.memory` in the profile, or find the "
            "one that does it with a small `max_records` under `epoch`"
        )
        return Facts("ended", ended.message, hint=by_records if ended.for_memory else ended.hint or "")
    cause = _cause(str(error)) or type(error).__name__
    if not cause.startswith(_CRASHED):
        return Facts("unknown", cause, too_large=_TOO_LARGE.search(str(error)) is not None)
    return Facts("crashed", f"{_CRASHED}{_end_of_worker(error)}", hint=_AGAIN)


def _end_of_worker(error: Exception) -> str:
    """What has ended a worker, as far as it is known, to go on with behind `_CRASHED`."""
    crash, last = crash_of(error), _FRAME.search(str(error))
    if not crash or crash == UNKNOWN_SIGNAL:
        by = "its code has called `os._exit`, or it was killed, as for want of memory"
        return f" and said nothing: {by}{', or it has crashed' if crash else ''}"
    at = f" in {last['path']}:{last['line']}, in {last['name']}" if last is not None else ""
    return f" (crashed): {crash}{at}"


def crash_of(error: Exception) -> str | None:
    """What the system has ended a worker for, such as `Bus error`; empty where somebody has killed it.

    None if no worker has ended. In a session of the user's own Spark may not tell; then it counts as a crash.
    """
    ended = _ENDED.search(str(error))
    return None if ended is None else ended["crash"] or ("" if ended["told"] else UNKNOWN_SIGNAL)


def worker_facts(error: BaseException) -> Facts | None:
    """The facts from a worker, found in an error that Spark raised in the driver; None if it was no worker's error."""
    found = list(_FACTS.finditer(str(error)))
    if not found:
        return None
    try:
        # The last one: errors that are chained before it may contain a record's own text.
        return from_json(Facts, found[-1]["facts"])
    except (ValueError, TypeError):  # cut off by Spark
        return None


def cause_of(text: str) -> str:
    """An error of an expression, as Java prints it, in a line that helps a user."""
    return _cause(f": {text}")


def _cause(text: str) -> str:
    """The root of one of Spark's errors, in a line that helps a user."""
    if (fatal := _FATAL.search(text)) is not None:
        if fatal["name"] == "StackOverflowError":
            return _STACK
        return f"Spark's JVM has not the memory for it (java.lang.OutOfMemoryError: {fatal['text'] or ''})"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    crashed = next((line for line in lines if _CRASHED in line), None)
    if crashed is not None:
        return crashed[crashed.index(_CRASHED) :].rstrip(": ")
    if any(line.startswith("Traceback ") for line in lines):
        raised = [line for line in lines if _RAISED.match(line)]
        return raised[-1] if raised else lines[0]
    java = [found for line in lines if (found := _JAVA.match(line))]
    if java:  # the first that Spark has a name for, else the one at the bottom
        best = next((found for found in java if (found["text"] or "").startswith("[")), java[-1])
        return without_advice(best["text"] or best["error"])
    return without_advice(lines[0]) if lines else ""
