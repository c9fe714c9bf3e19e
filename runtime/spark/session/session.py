"""The Spark session of a run: pinned settings, fair pools, and what `debug` checks of them."""

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
"""A task waits for its own client; that a client is gone is found by watching the executors, not by waiting."""

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
"""Settings that say what an expression means: how its text is read, and what its functions give.

With `variable.substitute` Spark would put the environment and its settings into texts (`'${env:HOME}'`) before it
parses them; what stood in a setting would be SQL.
"""

LEGACY = "spark.sql.legacy."
"""Settings that bring back meanings of older versions of Spark begin with this."""

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
"""Settings that correctness rests on; a profile cannot change them.

One failure fails the job: the loop decides what to run again, and a second try of a placed task would write under the
same attempt. A value on which the JVM's stack or memory runs out fails its task, not the JVM, so that the record can be
found and named. Time-outs are Spark's own (two minutes without a heartbeat): an executor that ends is seen at once
anyway, and one that is slow, on a machine that is busy or was asleep, is not to be given up.
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
"""Settings that a profile's `spark:` section may override. On a cluster it sets the driver's address."""

LOCALE = "-Duser.language=en -Duser.country=US -Duser.variant="
"""In Turkish, `lower('I')` is another letter: what a machine speaks must not show in results."""

_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""Environment variable with the arguments with which PySpark starts the JVM."""

_REDACTED = "spark.redaction.regex"
"""Setting with the names of settings whose values Spark shows in no event log and on no page."""

_SPARKS_SECRETS = "(?i)secret|password|token|access[.]?key"
"""What that is without being set (Spark's configuration, runtime environment)."""

_OF_JOBS = (PLAN_PROPERTY, REQUEST_PROPERTY)
"""Properties of jobs that hold the options of the log, which may be secrets."""

POOLS = ("epochs", "restore")


class SettingError(HeadwaterError):
    """A profile sets a Spark setting that Headwater pins to something else, or a legacy one: `name`, `value`."""

    def __init__(self, name: str, value: str) -> None:
        needed = f"needs {PINNED[name]!r}" if name in PINNED else "needs Spark as it is"
        super().__init__(
            f"the profile sets {name} to {value!r}, but Headwater {needed}",
            "remove it from the `spark:` section",
        )
        self.name = name
        self.value = value


class SessionError(HeadwaterError):
    """A Spark session that was there before has settings with which results would differ.

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
    settings |= dict.fromkeys(_OF_JOBS, "")  # of a job's properties Spark hides only those that are settings, too
    return settings | {name: f"{given.get(name, '')} {LOCALE}".strip() for name in _JAVA_OPTIONS}


def start_session(profile: Mapping[str, Any], name: str = "headwater") -> SparkSession:
    """Start the run's Spark session, or take the classic one that this process has.

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
    # Spark logs every failed query as a page of JSON; what failed is said once, by whoever ran it.
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
    """Start the JVM, if there is none yet, with its settings in a file that only its owner reads and that goes at once.

    PySpark itself would put them on the command line, where everybody on the machine reads them.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        return
    path = directory / "spark.properties"
    path.touch(mode=0o600)
    # JSON escapes what a file of Java properties must not hold, in the same way.
    own = {key: value for key, value in settings.items() if key.startswith("spark.")}  # the others the context gets
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
    """Pinned settings that this session does not have: name -> (needed, found). Legacy ones need to be unset: ""."""
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
    """Have PySpark make its own there, too, while it starts."""
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _keep_in(directory: Path, settings: dict[str, str]) -> None:
    """Have Spark and the libraries of its JVM keep their temporary files there: killed, they leave them behind."""
    directory /= "tmp"
    directory.mkdir()
    settings.setdefault("spark.local.dir", str(directory))
    options = "spark.driver.extraJavaOptions"
    own = shlex.quote(f"-Djava.io.tmpdir={directory}")
    settings[options] = f"{own} {settings[options]}"  # the last one counts: the profile's


def _quiet(settings: Mapping[str, str], directory: Path) -> str:
    """Spark says a dozen warnings while it starts, none of which a user can act on. Errors tell why it has not."""
    options = settings.get("spark.driver.extraJavaOptions", "")
    path = directory / "log4j2.properties"
    path.write_text(
        "status = off\nrootLogger.level = error\nrootLogger.appenderRef.stderr.ref = stderr\n"
        "appender.console.type = Console\nappender.console.name = stderr\nappender.console.target = SYSTEM_ERR\n"
        "appender.console.layout.type = PatternLayout\n"
    )
    return f"{options} {shlex.quote(f'-Dlog4j2.configurationFile=file:{path}')}".strip()


def _quiet_accumulators(session: SparkSession) -> None:
    """The server that takes workers' sums prints a stack trace when the JVM ends; who notices the end says so."""
    server: Any = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, client_address: None  # noqa: ARG005 - as socketserver calls it


def _pools(directory: Path) -> str:
    """The fair pools; Spark reads them when its context starts."""
    path = directory / "fairscheduler.xml"
    mode = "<schedulingMode>FAIR</schedulingMode><weight>1</weight><minShare>0</minShare>"
    pools = "".join(f'<pool name="{pool}">{mode}</pool>' for pool in POOLS)
    path.write_text(f"<allocations>{pools}</allocations>")
    return f"file:{path}"
