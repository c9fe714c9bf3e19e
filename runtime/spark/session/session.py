"""Starts the Spark session of a run: pinned settings, fair scheduler pools, and the comparison that `debug` shows."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError
from ....suggestions import guess
from ...environment import SPARK_LOG
from .ended_start import end_start_by_signal
from .gone_jvm import quiet_py4j
from .java import check_java
from .jvm import Jvm, spark_home, start_jvm
from .settings import ConnectError, require_fitting, settings_of
from .spark_folder import sockets_in, spark_folder
from .starting import starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OFF = "OFF"
"""The level of Spark's own log unless a user asks for more."""

_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", _OFF)

POOLS = ("epochs", "restore")


class LogLevelError(HeadwaterError):
    """Spark's own log is asked for with a level that it does not have: `level`."""

    def __init__(self, level: str) -> None:
        super().__init__(
            f"{SPARK_LOG} is {level!r}, and Spark's log has no such level",
            guess(level, _LEVELS, f"there are {', '.join(_LEVELS)}"),
        )
        self.level = level


@dataclass(frozen=True)
class BegunStart:
    """A start of Spark that has begun. `level`: of Spark's own log. `folder`: for its files; None if Spark runs
    already in this process. `jvm`: its JVM; None if there is one already.
    """

    settings: Mapping[str, str]
    level: str
    folder: Path | None = None
    jvm: Jvm | None = None
    over: Callable[[], None] = lambda: None
    """Called once, when it has ended: then signals are no longer those of the start."""

    @property
    def log(self) -> Path | None:
        """The file with what the JVM prints; None if a user wants to see that."""
        return self.folder / "spark.log" if self.folder is not None and self.level == _OFF else None

    def end(self) -> None:
        """End the JVM, which nobody needs after all."""
        if self.jvm is not None:
            self.jvm.end()
        self.over()


def begin_start(profile: Mapping[str, Any]) -> BegunStart:
    """Start Spark's JVM, if this process has none, without waiting for it.

    Raises JavaError, SettingError, ConnectError, LogLevelError, SparkStartError.
    """
    settings = settings_of(profile)
    if os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_CONNECT_MODE_ENABLED"):
        raise ConnectError()
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    level = os.environ.get(SPARK_LOG, _OFF).upper()
    if level not in _LEVELS:
        raise LogLevelError(level)
    if settings["spark.master"].startswith("local-cluster"):
        os.environ.setdefault("SPARK_HOME", spark_home())
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)  # importing it takes long
    if context is not None and context._active_spark_context is not None:
        return BegunStart(settings, level)
    with starting():
        folder = spark_folder()
        settings["spark.scheduler.allocation.file"] = _pools(folder)
        if settings["spark.master"].startswith("local"):
            _keep_in(folder, settings)
        if level == _OFF:
            settings["spark.driver.extraJavaOptions"] = _quiet(settings, folder)
        begun = BegunStart(settings, level, folder)
        if context is not None and context._gateway is not None:
            return begun
        jvm = start_jvm(settings, folder, begun.log)
        return replace(begun, jvm=jvm, over=end_start_by_signal(folder, jvm.process))


def start_session(profile: Mapping[str, Any], name: str = "headwater", begun: BegunStart | None = None) -> SparkSession:
    """Start the run's Spark session, or use the classic one of this process. `begun`: a start with the same profile.

    Raises JavaError, SettingError, ConnectError, SessionError, SparkStartError.
    """
    begun = begun or begin_start(profile)
    from pyspark.sql import SparkSession

    # Spark logs every failed query as a page of JSON. The caller reports a failure once, in a sentence.
    logging.getLogger("SQLQueryContextLogger").disabled = begun.level == _OFF
    if begun.level == _OFF:
        quiet_py4j()
    builder = SparkSession.builder.appName(name).config(map=dict(begun.settings))
    if begun.folder is None:
        with starting():
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel(begun.level)
        require_fitting(session)
        return session
    try:
        with starting(begun.log), _temporary_files_in(begun.folder):
            if begun.jvm is not None:
                begun.jvm.connect()
            session = builder.getOrCreate()
    finally:
        begun.over()
    if begun.level == _OFF:
        _quiet_accumulators(session)
    session.sparkContext.setLogLevel(begun.level)
    return session


@contextmanager
def _temporary_files_in(directory: Path) -> Iterator[None]:
    """Make PySpark create its temporary files in this folder while it starts."""
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _keep_in(directory: Path, settings: dict[str, str]) -> None:
    """Make Spark and the JVM's libraries keep temporary files in this folder. If they are killed, files stay behind."""
    directory /= "tmp"
    directory.mkdir()
    settings.setdefault("spark.local.dir", str(directory))
    for name, value in sockets_in(directory).items():
        settings.setdefault(name, value)
    options = "spark.driver.extraJavaOptions"
    own = shlex.quote(f"-Djava.io.tmpdir={directory}")
    settings[options] = f"{own} {settings[options]}"  # the last one wins: the profile's


def _quiet(settings: Mapping[str, str], directory: Path) -> str:
    """The JVM's options with a log configuration for errors only.

    Spark prints a dozen warnings at its start, none of which helps a user. Errors say why a start failed.
    """
    options = settings.get("spark.driver.extraJavaOptions", "")
    path = directory / "log4j2.properties"
    path.write_text(
        "status = off\nrootLogger.level = error\nrootLogger.appenderRef.stderr.ref = stderr\n"
        "appender.console.type = Console\nappender.console.name = stderr\nappender.console.target = SYSTEM_ERR\n"
        "appender.console.layout.type = PatternLayout\n"
    )
    return f"{options} {shlex.quote(f'-Dlog4j2.configurationFile=file:{path}')}".strip()


def _quiet_accumulators(session: SparkSession) -> None:
    """Silence the accumulator server, which prints a stack trace when the JVM ends. The caller reports the end."""
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, client_address: None  # noqa: ARG005 - as socketserver calls it


def _pools(directory: Path) -> str:
    """Write the fair scheduler pools, which Spark reads when its context starts."""
    path = directory / "fairscheduler.xml"
    mode = "<schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare>"
    pools = "".join(f'<pool name="{pool}">{mode}</pool>' for pool in POOLS)
    path.write_text(f"<allocations>{pools}</allocations>")
    return f"file:{path}"
