"""Finds out whether Spark's JVM is gone and which signal has ended it, from an error and by asking the JVM itself."""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ...driver.errors import ClusterEndedError

NO_ANSWER = "Answer from Java side is empty"
"""py4j's message if the JVM ends during a call."""

_ENDING_SECONDS = 10.0
"""How long to wait for the exit code of a JVM that is ending: it removes its temporary files first."""


class SparkEndedError(ClusterEndedError):
    """Spark's JVM is gone, and with it the session. What was committed remains.

    `by`: the signal that has ended it; None where that is not known. The kernel sends SIGKILL where memory is short.
    """

    def __init__(self, by: signal.Signals | None = None) -> None:
        if by is None or by == signal.SIGKILL:
            message = "Spark's JVM has ended; was it killed, for want of memory?"
            again = "if it ends again, see what the system's log says of it, and raise `driver.memory` in the profile"
        else:
            message = f"Spark's JVM was ended by {by.name}"
            again = "to end a run, send the signal to headwater's own process: it commits the open epoch first"
        super().__init__(message, f"run again: it goes on from the last commit; {again}")
        self.by = by

    @property
    def for_memory(self) -> bool:
        """Whether it may have been killed for want of memory."""
        return self.by is None or self.by == signal.SIGKILL

    @classmethod
    def of(cls, error: Exception) -> SparkEndedError | None:
        """The end of the JVM, if that has caused an error."""
        return cls(_ending_signal()) if has_ended(error) else None


def has_ended(error: Exception) -> bool:
    """Whether an error was caused by the end of the JVM, or by its being about to end.

    A JVM that was sent SIGTERM stops Spark first, so errors of Java come from that. After its end, py4j answers most
    calls as if the JVM lacked what was asked for ("scala does not exist in the JVM"). So the JVM is asked for something
    that it certainly has.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    if isinstance(error, Py4JNetworkError | ConnectionError):
        return True
    if not isinstance(error, Py4JError | PySparkException):
        return False
    return NO_ANSWER in str(error) or not _lasts()


@contextmanager
def ignoring_a_gone_jvm() -> Iterator[None]:
    """For the end of a session: if the JVM is gone, there is nothing to stop."""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError, EOFError):
        yield


@contextmanager
def telling_of_a_gone_jvm() -> Iterator[None]:
    """Raise SparkEndedError in place of an error caused by the end of the JVM."""
    try:
        yield
    except Exception as error:
        ended = SparkEndedError.of(error)
        if ended is None:
            raise
        raise ended from error


def quiet_py4j() -> None:
    """Silence py4j, which logs a stack trace for each call to a JVM that is gone. The caller reports the end once."""
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _lasts() -> bool:
    """Whether the JVM answers, and is not about to end."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return True  # there is none that could be gone
    try:
        return not gateway.jvm.org.apache.spark.util.ShutdownHookManager.inShutdown()
    except (Py4JError, OSError, TypeError):  # TypeError: py4j takes a name for that of a package, which is not called
        return False


def _ending_signal() -> signal.Signals | None:
    """The signal that has ended the JVM, or is ending it; None where this process has not started it, or none has."""
    from pyspark import SparkContext

    started: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if started is None:
        return None
    try:
        code = started.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    # Python gives the signal as a negative number. A JVM that ends in order has a shell's form of it as its exit code.
    number = -code if code < 0 else code - 128
    return signal.Signals(number) if number in set(signal.Signals) else None
