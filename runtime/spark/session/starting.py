"""Explains a failed start of Spark in one sentence, from the error and from what the JVM printed."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ....errors import HeadwaterError, MachineError, shortened
from ...environment import SPARK_LOG
from .gone_jvm import has_ended


class SparkStartError(HeadwaterError):
    """Spark did not start. `cause`: what it says."""

    def __init__(self, cause: str, hint: str | None = None) -> None:
        home = os.environ.get("SPARK_HOME")
        super().__init__(
            f"Spark has not started: {shortened(cause)}",
            hint
            or "look at the `spark:` section of the profile"
            + (f", and at SPARK_HOME, which is {home}" if home else "")
            + f"; {SPARK_LOG}=WARN in the environment shows all that Spark says",
        )
        self.cause = cause


class PortInUseError(SparkStartError):
    """Other programs use the port of one of Spark's services: `setting`, `port`, and the next `retries` ports, too."""

    def __init__(self, setting: str, port: int, retries: int) -> None:
        ports = f"ports {port} to {port + retries} are" if retries else f"port {port} is"
        super().__init__(
            f"{ports} in use by other programs, and {setting} is to be one of them",
            f"give {setting} another port in the `spark:` section of the profile, or end the program that has it",
        )
        self.setting = setting
        self.port = port
        self.retries = retries


@contextmanager
def starting(path: Path | None = None) -> Iterator[None]:
    """Turn the error of a failed start into one sentence. `path`: a file that gets the JVM's stderr meanwhile."""
    try:
        with nullcontext() if path is None else _stderr_to(path), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyspark's, of a JVM that is gone
            yield
    except Exception as error:  # pyspark's, py4j's, the system's
        said = path.read_text("utf-8", "replace") if path is not None and path.exists() else ""
        raise start_error(error, said) from error


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect stderr to the end of a file, in which the JVM writes too."""
    sys.stderr.flush()
    # The descriptor and not `sys.stderr`, for whatever the start begins.
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


_JAVA_ERROR = re.compile(
    r"^(?:: |Caused by: |Exception in thread \"\w+\" )?[\w.$]+(?:Exception|Error): (?P<text>\S.*)$", re.M
)
"""How Java prints an error, and how py4j prints one of Java's."""

_GATEWAY_EXITED = "JAVA_GATEWAY_EXITED"
"""pyspark's error if the JVM ended before a connection. The JVM has then printed the reason."""


_NO_CAUSE = ("Picked up", "WARN", "Using Spark's default log4j", "Setting default log level", "To adjust logging level")
"""The beginnings of lines that every start may print."""

_PORT_IN_USE = re.compile(
    r"(?:Address already in use|Failed to bind to \S+): Service '(?P<service>[\w.]+)' "
    r"failed after (?P<retries>\d+) retries \(starting from (?P<port>\d+)\)"
)
"""Spark's message if it found no free port (Utils.startServiceOnPort)."""

_PORTS = {
    "sparkDriver": "spark.driver.port",
    "SparkUI": "spark.ui.port",
    "org.apache.spark.network.netty.NettyBlockTransferService": "spark.blockManager.port",
}
"""The setting with the port of each service."""


def start_error(error: Exception, said: str) -> SparkStartError:
    """The error for a failed start. `said`: what the JVM printed."""
    taken = _PORT_IN_USE.search(str(error)) or _PORT_IN_USE.search(said)
    if taken is not None and taken["service"] in _PORTS:
        return PortInUseError(_PORTS[taken["service"]], int(taken["port"]), int(taken["retries"]))
    return SparkStartError(start_cause(error, said))


def start_cause(error: Exception, said: str) -> str:
    """The reason of a failed start in one line. `said`: what the JVM printed."""
    text = str(error)
    if _GATEWAY_EXITED in text or has_ended(error):
        text = said
    elif isinstance(error, OSError):
        return MachineError.of(error).message
    if (found := _JAVA_ERROR.search(text)) is not None:
        return found["text"]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_NO_CAUSE)]
    return lines[0] if lines else "its JVM has ended and left no message; was it killed, for want of memory?"
