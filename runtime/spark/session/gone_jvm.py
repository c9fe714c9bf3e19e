"""Finds out whether Spark's JVM is gone, from an error and by asking the JVM itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ....errors import HeadwaterError

NO_ANSWER = "Answer from Java side is empty"
"""py4j's message if the JVM ends during a call."""


class SparkEndedError(HeadwaterError):
    """Spark's JVM is gone, and with it the session. What was committed remains."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's JVM has ended; was it killed, for want of memory?",
            "run again: it goes on from the last commit; if it ends again, see what the system's log says of it, and "
            "raise `driver.memory` in the profile",
        )


def has_ended(error: Exception) -> bool:
    """Whether an error was caused by the end of the JVM.

    After the end of the JVM, py4j answers most calls as if the JVM lacked what was asked for ("scala does not exist in
    the JVM"). So the JVM is asked for something that it certainly has.
    """
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JNetworkError | ConnectionError):
        return True
    if isinstance(error, Py4JJavaError) or not isinstance(error, Py4JError):
        return False
    return NO_ANSWER in str(error) or not _answers()


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
        if not has_ended(error):
            raise
        raise SparkEndedError() from error


def quiet_py4j() -> None:
    """Silence py4j, which logs a stack trace for each call to a JVM that is gone. The caller reports the end once."""
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _answers() -> bool:
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return True  # there is none that could be gone
    try:
        gateway.jvm.java.lang.System.currentTimeMillis()
    except (Py4JError, OSError):
        return False
    return True
