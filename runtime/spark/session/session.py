"""Starts the Spark session of a run: pinned settings, fair scheduler pools, and the comparison that `debug` shows."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError
from ...environment import LookedUp
from ..executor_link import REQUEST_PROPERTY
from ..worker import PLAN_PROPERTY
from .gone_jvm import quiet_py4j
from .java import check_java
from .spark_folder import spark_folder
from .starting import LOG_LEVEL, starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCALITY_WAIT = "1h"
"""A task waits for its own client. A lost client is noticed by watching the executors, not by this wait."""

EXPRESSIONS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.columnNameOfCorruptRecord": "_corrupt_record",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": "false",
}
"""Settings that decide what an expression means: how its text is read, and what its functions return.

With `variable.substitute` Spark would insert environment variables and settings into the text (`'${env:HOME}'`) before
it parses it, so the contents of a setting would become SQL.
"""

LEGACY = "spark.sql.legacy."
"""The prefix of settings that restore the behaviour of older versions of Spark."""

PINNED: Mapping[str, str] = {
    "spark.speculation": "false",
    "spark.python.task.killTimeout": "0ms",
    "spark.dynamicAllocation.enabled": "false",
    "spark.locality.wait": LOCALITY_WAIT,
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(256 << 20),
    "spark.python.worker.reuse": "true",
    "spark.executor.killOnFatalError.depth": "0",
    **EXPRESSIONS,
}
"""Settings that correct results depend on. A profile cannot change them.

`maxFailures`: one failure fails the job. The driver's loop decides what runs again; a retry by Spark would write under
the same attempt. `killOnFatalError`: a value that exhausts the JVM's stack or memory fails its task and not the JVM, so
that the record can be found and named. Timeouts are Spark's own (two minutes without a heartbeat). An executor that
ends is noticed at once anyway, and a slow one, on a busy or suspended machine, must not be given up.
"""

DEFAULTS: Mapping[str, str] = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.python.daemon.module": "headwater.runtime.spark.worker_daemon",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Settings that a profile's `spark:` section may override. On a cluster, Spark chooses the driver's address."""

LOCALE = "-Duser.language=en -Duser.country=US -Duser.variant="
"""In Turkish, `lower('I')` is another letter. The language of a machine must not change results."""

_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable with the arguments for PySpark's start of the JVM."""

_REDACTED = "spark.redaction.regex"
"""The setting with the pattern of settings whose values Spark hides in event logs and on its pages."""

_SPARKS_SECRETS = "(?i)secret|password|token|access[.]?key"
"""Its default (Spark's configuration page, runtime environment)."""

_OF_JOBS = (PLAN_PROPERTY, REQUEST_PROPERTY)
"""Job properties with the options of the log, which may be secrets."""

POOLS = ("epochs", "restore")


class SettingError(HeadwaterError):
    """A profile changes a Spark setting that Headwater pins, or sets a legacy one: `name`, `value`."""

    def __init__(self, name: str, value: str) -> None:
        needed = f"needs {PINNED[name]!r}" if name in PINNED else "needs Spark as it is"
        super().__init__(
            f"the profile sets {name} to {value!r}, but Headwater {needed}",
            "remove it from the `spark:` section",
        )
        self.name = name
        self.value = value


class SessionError(HeadwaterError):
    """An existing Spark session has settings that would change results.

    `differences`: name -> (needed, found).
    """

    def __init__(self, differences: Mapping[str, tuple[str, str]]) -> None:
        listed = "".join(
            f"\n  - {name} is {found!r}, not {needed!r}" if needed else f"\n  - {name} is set, to {found!r}"
            for name, (needed, found) in differences.items()
        )
        super().__init__(
            f"with this Spark session expressions would give other results:{listed}",
            "change these settings of the session, or give none: Headwater starts one",
        )
        self.differences = dict(differences)


class ConnectError(HeadwaterError):
    """A Spark Connect session was found or asked for."""

    def __init__(self) -> None:
        super().__init__(
            "Headwater places tasks on executors, which Spark Connect cannot do",
            "use a classic master such as local[2], spark://host:7077, yarn or k8s://...",
        )


def settings_of(profile: Mapping[str, Any]) -> dict[str, str]:
    """The Spark settings of a profile's `spark:` section, with Headwater's own. `master` is `spark.master`.

    Raises SettingError for a pinned setting with another value, ConnectError for a `remote`.
    """
    given = {_name(key): _text(value) for key, value in profile.items() if value is not None}
    if "spark.remote" in given or given.get("spark.master", "").startswith("sc://"):
        raise ConnectError()
    for name, value in given.items():
        if name.startswith(LEGACY) or (name in PINNED and value != PINNED[name]):
            raise SettingError(name, value)
    local = given.get("spark.master", "local[2]").startswith("local")
    defaults = DEFAULTS if local else {k: v for k, v in DEFAULTS.items() if not k.startswith("spark.driver.")}
    settings = {"spark.master": "local[2]"} | dict(defaults) | given | dict(PINNED)
    secret = [*_OF_JOBS, *(_name(key) for key, value in profile.items() if isinstance(value, LookedUp))]
    settings[_REDACTED] = f"{given.get(_REDACTED, _SPARKS_SECRETS)}|^(?:{'|'.join(map(re.escape, secret))})$"
    settings |= dict.fromkeys(_OF_JOBS, "")  # Spark redacts a job's property only if a setting has the same name
    return settings | {name: f"{given.get(name, '')} {LOCALE}".strip() for name in _JAVA_OPTIONS}


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

    PySpark itself would put them on the command line, which everybody on the machine can read.
    """
    from pyspark import SparkContext

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
        SparkContext._ensure_initialized()
    finally:
        path.unlink()
        if given is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = given


def differences(session: SparkSession) -> dict[str, tuple[str, str]]:
    """Pinned settings that this session lacks: name -> (needed, found). Legacy settings must be unset: ""."""
    found = {name: session.conf.get(name, "") or "" for name in PINNED}
    wrong = {name: (PINNED[name], value) for name, value in found.items() if value != PINNED[name]}
    return wrong | {name: ("", value) for name, value in session.conf.getAll.items() if name.startswith(LEGACY)}


def require_fitting(session: SparkSession) -> None:
    """Refuse a session in which an expression would mean something else. Raises SessionError."""
    wrong = {name: pair for name, pair in differences(session).items() if name in EXPRESSIONS or not pair[0]}
    if wrong:
        raise SessionError(wrong)


def _name(key: str) -> str:
    return key if key.startswith("spark.") else f"spark.{key}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
