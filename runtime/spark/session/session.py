"""Starts the Spark session of a run: pinned settings, fair scheduler pools, and the comparison that `debug` shows."""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .gone_jvm import quiet_py4j
from .java import check_java
from .settings import ConnectError, require_fitting, settings_of
from .spark_folder import sockets_in, spark_folder
from .starting import LOG_LEVEL, starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable with the arguments for PySpark's start of the JVM."""


POOLS = ("epochs", "restore")


def start_session(profile: Mapping[str, Any], name: str = "headwater") -> SparkSession:
    """Start the run's Spark session, or use the classic one of this process.

    Raises JavaError, SettingError, ConnectError, SessionError, SparkStartError.
    """
    settings = settings_of(profile)
    if os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_CONNECT_MODE_ENABLED"):
        raise ConnectError()
    check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    import pyspark
    from pyspark.sql import SparkSession

    if settings["spark.master"].startswith("local-cluster"):
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    submitted = pyspark.SparkContext._active_spark_context is not None
    level = os.environ.get(LOG_LEVEL, "OFF").upper()
    # Spark logs every failed query as a page of JSON. The caller reports a failure once, in a sentence.
    logging.getLogger("SQLQueryContextLogger").disabled = level == "OFF"
    if level == "OFF":
        quiet_py4j()
    builder = SparkSession.builder.appName(name)
    if submitted:
        with starting():
            session = builder.config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel(level)
        require_fitting(session)
        return session
    directory = spark_folder()
    settings["spark.scheduler.allocation.file"] = _pools(directory)
    if settings["spark.master"].startswith("local"):
        _keep_in(directory, settings)
    if level == "OFF":
        settings["spark.driver.extraJavaOptions"] = _quiet(settings, directory)
    with starting(directory / "spark.log" if level == "OFF" else None), _temporary_files_in(directory):
        _start_java(settings, directory)
        session = builder.config(map=settings).getOrCreate()
    if level == "OFF":
        _quiet_accumulators(session)
    session.sparkContext.setLogLevel(level)
    return session


def _start_java(settings: Mapping[str, str], directory: Path) -> None:
    """Start the JVM, if there is none, with its settings in a private file that is removed at once.

    PySpark itself would put them on the command line, which everybody on the machine can read. The JVM gets a session
    of its own: a signal to this process's group, such as Ctrl-C in a terminal, must not end Spark before the open epoch
    is committed. The JVM ends with this process in any case, because it then reads the end of its standard input.
    """
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    path = directory / "spark.properties"
    path.touch(mode=0o600)
    # JSON's escapes are valid in a file of Java properties, and cover all that needs escaping there.
    own = {key: value for key, value in settings.items() if key.startswith("spark.")}  # the context gets the others
    path.write_text("".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in own.items()), "ascii")
    given = os.environ.get(_ARGUMENTS)
    os.environ[_ARGUMENTS] = " ".join(
        ["--properties-file", shlex.quote(str(path)), "--load-spark-defaults", given or "pyspark-shell"]
    )
    try:
        SparkContext._ensure_initialized(gateway=launch_gateway(popen_kwargs={"start_new_session": True}))
    finally:
        path.unlink()
        if given is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = given


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
