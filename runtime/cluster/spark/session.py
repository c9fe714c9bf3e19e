"""The Spark session of a run: its settings, its start, and the errors of a failed start."""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError, MachineError, shortened
from ....suggestions import guess
from ...environment import SPARK_LOG, LookedUp
from ...pinned_settings import (
    DYNAMIC,
    EXPRESSIONS,
    FEWEST_EXECUTORS,
    LEGACY,
    PINNED,
    refused_settings,
    setting_name,
    setting_text,
)
from .cluster import REQUEST_PROPERTY
from .jvm import (
    Jvm,
    check_java,
    end_start_by_signal,
    has_ended,
    quiet_py4j,
    sockets_in,
    spark_folder,
    spark_home,
    start_jvm,
)
from .worker import PLAN_PROPERTY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


DEFAULTS: Mapping[str, str] = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.executorEnv.PYTHONSAFEPATH": "1",  # `python -m` imports from the current folder first: a project's `lmdb.py`
    "spark.python.daemon.module": "headwater.runtime.cluster.spark.worker_daemon",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",  # tells a worker that crashed from one killed
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Settings that a profile's `spark:` section may override. On a cluster, Spark chooses the driver's address."""

LOCALE = "-Duser.language=en -Duser.country=US -Duser.variant="
"""In Turkish, `lower('I')` is another letter. The language of a machine must not change results."""

_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")

_REDACTED = "spark.redaction.regex"
"""The setting with the pattern of settings whose values Spark hides in event logs and on its pages."""

_SPARKS_SECRETS = "(?i)secret|password|token|access[.]?key"
"""Its default (Spark's configuration page, runtime environment)."""

_OF_JOBS = (PLAN_PROPERTY, REQUEST_PROPERTY)
"""Job properties with the options of the log, which may be secrets."""


class SettingError(HeadwaterError):
    """A profile changes a Spark setting that is pinned, sets a legacy one, or allows no executor: `name`, `value`."""

    def __init__(self, name: str, value: str, needed: str) -> None:
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
            f"\n  - {name} is {present!r}, not {needed!r}" if needed else f"\n  - {name} is set, to {present!r}"
            for name, (needed, present) in differences.items()
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
    """The Spark settings of a profile's `spark:` section, and Headwater's own. `master` is `spark.master`.

    Raises SettingError for a pinned setting with another value, ConnectError for a `remote`.
    """
    given = {setting_name(key): setting_text(value) for key, value in profile.items() if value is not None}
    if "spark.remote" in given or given.get("spark.master", "").startswith("sc://"):
        raise ConnectError()
    for name, needed in refused_settings(given):
        raise SettingError(name, given[name], needed)
    local = given.get("spark.master", "local[2]").startswith("local")
    defaults = DEFAULTS if local else {k: v for k, v in DEFAULTS.items() if not k.startswith("spark.driver.")}
    settings = {"spark.master": "local[2]"} | dict(defaults) | given | dict(PINNED)
    if settings.get(f"{DYNAMIC}.enabled", "").lower() == "true":
        settings.setdefault(FEWEST_EXECUTORS, "1")
    secret = [*_OF_JOBS, *(setting_name(key) for key, value in profile.items() if isinstance(value, LookedUp))]
    settings[_REDACTED] = f"{given.get(_REDACTED, _SPARKS_SECRETS)}|^(?:{'|'.join(map(re.escape, secret))})$"
    settings |= dict.fromkeys(_OF_JOBS, "")  # Spark redacts a job's property only if a setting has the same name
    return settings | {name: f"{given.get(name, '')} {LOCALE}".strip() for name in _JAVA_OPTIONS}


def differences(session: SparkSession) -> dict[str, tuple[str, str]]:
    """Name -> (needed, found) of pinned settings with other values in a session. Legacy settings must be unset: ""."""
    present = {name: session.conf.get(name, "") or "" for name in PINNED}
    wrong = {name: (PINNED[name], value) for name, value in present.items() if value != PINNED[name]}
    return wrong | {name: ("", value) for name, value in session.conf.getAll.items() if name.startswith(LEGACY)}


def require_fitting(session: SparkSession) -> None:
    """Check that expressions mean the same in a session. Raises SessionError."""
    wrong = {name: pair for name, pair in differences(session).items() if name in EXPRESSIONS or not pair[0]}
    if wrong:
        raise SessionError(wrong)


class SparkStartError(HeadwaterError):
    """Spark did not start: `cause`, one sentence from the error or from the JVM's output."""

    def __init__(self, cause: str, hint: str | None = None) -> None:
        home = os.environ.get("SPARK_HOME")
        super().__init__(
            f"Spark has not started: {shortened(cause)}",
            hint
            or "check the `spark:` section of the profile"
            + (f", and SPARK_HOME, which is {home}" if home else "")
            + f"; {SPARK_LOG}=WARN in the environment shows Spark's log",
        )
        self.cause = cause


class PortInUseError(SparkStartError):
    """Other programs use the port of a Spark service (`setting`, `port`), and the next `retries` ports."""

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
    # The descriptor and not `sys.stderr`, for child processes of the start.
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
"""A Java error as Java and py4j print it."""

_GATEWAY_EXITED = "JAVA_GATEWAY_EXITED"
"""pyspark's error if the JVM ended before a connection. The JVM has printed the cause then."""


_NO_CAUSE = ("Picked up", "WARN", "Using Spark's default log4j", "Setting default log level", "To adjust logging level")
"""The starts of lines that every start may print."""

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
"""Service -> setting with its port."""


def start_error(error: Exception, said: str) -> SparkStartError:
    """The error for a failed start. `said`: the output of the JVM."""
    taken = _PORT_IN_USE.search(str(error)) or _PORT_IN_USE.search(said)
    if taken is not None and taken["service"] in _PORTS:
        return PortInUseError(_PORTS[taken["service"]], int(taken["port"]), int(taken["retries"]))
    return SparkStartError(start_cause(error, said))


def start_cause(error: Exception, said: str) -> str:
    """The cause of a failed start in one line. `said`: the output of the JVM."""
    text = str(error)
    if _GATEWAY_EXITED in text or has_ended(error):
        text = said
    elif isinstance(error, OSError):
        return MachineError.from_error(error).message
    if (match := _JAVA_ERROR.search(text)) is not None:
        return match["text"]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_NO_CAUSE)]
    return lines[0] if lines else "its JVM has ended without a message; was it killed, for lack of memory?"


_OFF = "OFF"
"""The level of Spark's own log unless a user asks for more."""

_LEVELS = ("ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", _OFF)

POOLS = ("epochs", "restore")


class LogLevelError(HeadwaterError):
    """The level of Spark's own log is none of its levels: `level`."""

    def __init__(self, level: str) -> None:
        super().__init__(
            f"{SPARK_LOG} is {level!r}, and Spark's log has no such level",
            guess(level, _LEVELS, f"there are {', '.join(_LEVELS)}"),
        )
        self.level = level


@dataclass(frozen=True)
class BegunStart:
    """A running start of Spark. `level`: of Spark's own log. `folder`: of its files; None if Spark runs already in this
    process. `jvm`: the new JVM; None if there is one already.
    """

    settings: Mapping[str, str]
    level: str
    folder: Path | None = None
    jvm: Jvm | None = None
    over: Callable[[], None] = lambda: None
    """Called once at the end of the start, which then handles no signals any more."""

    @property
    def log(self) -> Path | None:
        """The file with the output of the JVM; None if a user wants to see it."""
        return self.folder / "spark.log" if self.folder is not None and self.level == _OFF else None

    def end(self) -> None:
        """End the JVM, which is not needed."""
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

    # Spark logs every failed query as a page of JSON. The caller reports a failure in one sentence.
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
    """A context in which PySpark creates its temporary files in this folder."""
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _keep_in(directory: Path, settings: dict[str, str]) -> None:
    """Set this folder for temporary files of Spark and the JVM's libraries, which leave files behind if they are
    killed.
    """
    directory /= "tmp"
    directory.mkdir()
    settings.setdefault("spark.local.dir", str(directory))
    for name, value in sockets_in(directory).items():
        settings.setdefault(name, value)
    options = "spark.driver.extraJavaOptions"
    own = shlex.quote(f"-Djava.io.tmpdir={directory}")
    settings[options] = f"{own} {settings[options]}"  # the profile's option is last, and wins


def _quiet(settings: Mapping[str, str], directory: Path) -> str:
    """The JVM's options with a log configuration for errors only.

    Spark prints a dozen warnings at its start, which do not help a user. Errors have the cause of a failed start.
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
