"""Metadata of an error in the epoch's job, from a worker or from Spark's message.

Of an exception in a worker, the driver of Spark gets only the text of the traceback. So the last exception that a
worker raises has its metadata as one line of JSON in its text, which the driver parses.
"""

from __future__ import annotations

import re

from ...dataclass_json import from_json
from ...engine.failed_stage import Facts, StageFailedError
from .jvm import SparkEndedError
from .runner import without_advice

_METADATA = re.compile(rf"\b{StageFailedError.__name__}: (?P<json>\{{[^\n]*\}})")

_RAISED = re.compile(r"^[A-Za-z_][\w.]*: \S")
"""The last line of a Python traceback."""

_CRASHED = "Python worker exited unexpectedly"
"""Spark's message for a worker that was killed or crashed."""

_ENDED = re.compile(rf"{_CRASHED} \(crashed\)(?P<output>: *(?:Fatal Python error: (?P<crash>[^\n]+))?)?")
"""The message with the output of Python's fault handler, if that was on."""

UNKNOWN_SIGNAL = "unknown signal"
"""The crash of a worker without any output, also not that of a fault handler without a fault."""

_FRAME = re.compile(r'^\s*File "(?P<path>functions/[^"\n]+)", line (?P<line>\d+) in (?P<name>\S+)', re.MULTILINE)
"""A call in a project's functions, as Python's fault handler prints it, the last call first."""

_AGAIN = (
    "nothing of this epoch is committed; run again: it resumes from the last commit. If its worker dies again, find "
    "the cause: code that calls `os._exit`, a package in C, or a lack of memory"
)

_FATAL = re.compile(r"java\.lang\.(?P<name>StackOverflowError|OutOfMemoryError)(?:: (?P<text>[^\n]*))?")
"""Errors of the JVM that a value can cause."""

_TOO_LARGE = re.compile(r"java\.lang\.OutOfMemoryError|\bOversizedAllocationException\b")
"""Errors of the JVM that rows can cause together, though no single one is too large."""

_THREADS = re.compile(r"java\.lang\.OutOfMemoryError: [Uu]nable to create (?:new )?native thread")
"""An error of the JVM that no value causes: the system gives it no further thread."""

_JAVA = re.compile(r"(?:Caused by)?: (?P<error>[\w.$]+(?:Exception|Error))(?:: (?P<text>.*))?$")
"""A Java error as py4j prints it, and a cause as Java does."""

_STACK = (
    "the value is too long for an expression that calls itself for each part of it (java.lang.StackOverflowError); "
    "a regular expression does so for a repeated group: write [ab]* for (a|b)*"
)


def facts_of(error: Exception) -> Facts:
    """The metadata of an error that Spark has raised in the driver for a job."""
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
    """The end of a worker as far as it is known, as text after `_CRASHED`."""
    crash, last = crash_of(error), _FRAME.search(str(error))
    if not crash or crash == UNKNOWN_SIGNAL:
        by = "its code has called `os._exit`, or it was killed, as for want of memory"
        return f" and said nothing: {by}{', or it has crashed' if crash else ''}"
    at = f" in {last['path']}:{last['line']}, in {last['name']}" if last is not None else ""
    return f" (crashed): {crash}{at}"


def crash_of(error: Exception) -> str | None:
    """The crash of a worker, such as `Bus error`; empty if it was killed; None if no worker has ended.

    In a session of the user's own Spark may not report it; then it counts as a crash.
    """
    ended = _ENDED.search(str(error))
    return None if ended is None else ended["crash"] or ("" if ended["output"] else UNKNOWN_SIGNAL)


def worker_facts(error: BaseException) -> Facts | None:
    """The metadata of a worker in an error that Spark has raised in the driver; None if it was no worker's error."""
    matches = list(_METADATA.finditer(str(error)))
    if not matches:
        return None
    try:
        # The last one: earlier chained errors may contain a record's own text.
        return from_json(Facts, matches[-1]["json"])
    except (ValueError, TypeError):  # truncated by Spark
        return None


def cause_of(text: str) -> str:
    """An error of an expression, from Java's text, as one line for a user."""
    return _cause(f": {text}")


def _cause(text: str) -> str:
    """The root cause of a Spark error as one line for a user."""
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
    java = [match for line in lines if (match := _JAVA.match(line))]
    if java:  # the first with a Spark error class, else the root
        best = next((match for match in java if (match["text"] or "").startswith("[")), java[-1])
        return without_advice(best["text"] or best["error"])
    return without_advice(lines[0]) if lines else ""
