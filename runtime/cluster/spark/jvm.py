"""The JVM of Spark: its start and its end."""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from ....errors import HeadwaterError
from ...driver.errors import ClusterEndedError

# Spark's JVM takes a second to start, in which this process can do other work. PySpark's own `launch_gateway` starts it
# and waits. Here the start is separate, and `launch_gateway` connects to the running JVM.

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable with a user's own arguments for the start of the JVM."""

_ANSWER = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The environment variable with the path of the file for the JVM's port and secret."""

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""The environment variables with the port and the secret of a running JVM, for PySpark."""

_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Jvm:
    """A started JVM. `settings`: the file with its settings; `answer`: the file in which it writes port and secret."""

    process: subprocess.Popen[bytes]
    settings: Path
    answer: Path

    def connect(self) -> None:
        """Wait until it is ready, and connect PySpark to it. Raises PySparkRuntimeError if it has ended."""
        from pyspark import SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway
        from pyspark.serializers import UTF8Deserializer, read_int

        while not self.answer.exists():
            if self.process.poll() is not None:
                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            time.sleep(_LOOK_SECONDS)
        self.settings.unlink()
        with self.answer.open("rb") as file:
            os.environ[_PORT], os.environ[_SECRET] = str(read_int(file)), UTF8Deserializer().loads(file)
        try:
            gateway: Any = launch_gateway()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]
        gateway.proc = self.process
        SparkContext._ensure_initialized(gateway=gateway)

    def end(self) -> None:
        """End a JVM without a connection."""
        self.process.terminate()
        self.process.communicate()
        self.settings.unlink(missing_ok=True)


def start_jvm(settings: Mapping[str, str], folder: Path, log: Path | None) -> Jvm:
    """Start the JVM with its settings in a private file in `folder`. `log`: a file for its stderr, or None.

    PySpark itself would put the settings on the command line, which all users of the machine can read. The JVM gets a
    session of its own: a signal to this process's group, such as Ctrl-C in a terminal, must not end Spark before the
    open epoch is committed. The JVM ends with this process, because its standard input ends then.

    Raises OSError.
    """
    path, answer = folder / "spark.properties", folder / "connection"
    path.touch(mode=0o600)
    # JSON's escapes are valid in a file of Java properties, and sufficient.
    own = {key: value for key, value in settings.items() if key.startswith("spark.")}  # the context gets the others
    path.write_text("".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in own.items()), "ascii")
    home = spark_home()
    given = shlex.split(os.environ.get(_ARGUMENTS) or "pyspark-shell")
    command = [f"{home}/bin/spark-submit", "--properties-file", str(path), "--load-spark-defaults", *given]
    environment = {
        **os.environ,
        "SPARK_HOME": home,  # otherwise a script asks Python for it
        "SPARK_CONNECT_MODE": "0",
        _ANSWER: str(answer),
    }
    with open(os.devnull if log is None else log, "ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=None if log is None else file,
            env=environment,
            start_new_session=True,
        )
    return Jvm(process, path, answer)


def spark_home() -> str:
    """The directory of Spark: SPARK_HOME, else that of the installed PySpark, which is not imported yet."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return os.environ.get("SPARK_HOME") or spec.submodule_search_locations[0]


NO_ANSWER = "Answer from Java side is empty"
"""py4j's message if the JVM ends during a call."""

_ENDING_SECONDS = 10.0
"""How long to wait for the exit code of a JVM that is ending: it removes its temporary files first."""


class SparkEndedError(ClusterEndedError):
    """Spark's JVM has ended, and with it the session. All commits remain.

    `by`: the signal that has ended it; None if unknown. The kernel sends SIGKILL when memory is short.
    """

    def __init__(self, by: signal.Signals | None = None) -> None:
        if by is None or by == signal.SIGKILL:
            message = "Spark's JVM has ended; was it killed, for lack of memory?"
            again = "if it ends again, check the system's log, and raise `driver.memory` in the profile"
        else:
            message = f"Spark's JVM was ended by {by.name}"
            again = "to end a run, send the signal to headwater's own process: it commits the open epoch first"
        super().__init__(message, f"run again: it resumes from the last commit; {again}")
        self.by = by

    @property
    def for_memory(self) -> bool:
        """Whether it may have been killed for lack of memory."""
        return self.by is None or self.by == signal.SIGKILL

    @classmethod
    def of(cls, error: Exception) -> SparkEndedError | None:
        """The error for the end of the JVM, if that has caused `error`; else None."""
        return cls(_ending_signal()) if has_ended(error) else None


def has_ended(error: Exception) -> bool:
    """Whether the end of the JVM, or its shutdown, has caused an error.

    After SIGTERM a JVM stops Spark first, which raises Java errors. After its end, py4j raises errors for most calls as
    if the JVM lacked the class ("scala does not exist in the JVM"). So a class is called that it certainly has.
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
    """A context for the end of a session: if the JVM has ended, there is nothing to stop."""
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
    """Silence py4j, which logs a stack trace for every call to a JVM that has ended. The caller reports the
    end once.
    """
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def _lasts() -> bool:
    """Whether the JVM responds, and is not shutting down."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    if gateway is None:
        return True  # there is no JVM
    try:
        return not gateway.jvm.org.apache.spark.util.ShutdownHookManager.inShutdown()
    except (Py4JError, OSError, TypeError):  # TypeError: py4j takes the name for a package, which cannot be called
        return False


def _ending_signal() -> signal.Signals | None:
    """The signal that has ended the JVM, or is ending it; None without one, or if this process has not started it."""
    from pyspark import SparkContext

    started: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if started is None:
        return None
    try:
        code = started.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    # Python returns the signal as a negative number. A JVM that shuts down has 128 + signal as its exit code.
    number = -code if code < 0 else code - 128
    return signal.Signals(number) if number in set(signal.Signals) else None


MINIMUM = 17
"""Spark 4 runs on Java 17 and later (Spark 4.0 migration guide)."""

_HOME = "JAVA_HOME"
"""The environment variable that takes precedence over the PATH, for Spark and here."""


class JavaError(HeadwaterError):
    """Java is missing or too old. `found`: its version; None if it is missing."""

    def __init__(self, message: str, version: str | None) -> None:
        super().__init__(
            message,
            f"set JAVA_HOME to the folder of a JDK or JRE {MINIMUM} or later, or unset it and put one on the PATH"
            if os.environ.get(_HOME)
            else f"install a JDK or JRE {MINIMUM} or later and put it on the PATH, or set JAVA_HOME to its folder",
        )
        self.found = version


@dataclass(frozen=True)
class Java:
    """A suitable Java: its executable and its version."""

    executable: str
    version: str


def _executable() -> str:
    """The Java that Spark would start. Raises JavaError if there is none."""
    home = os.environ.get(_HOME)
    needed = f"Spark needs Java {MINIMUM} or later, and "
    if not home:
        executable = shutil.which("java")
        if executable is None:
            raise JavaError(f"{needed}there is no java on the PATH", None)
        return executable
    candidate = Path(home) / "bin" / "java"
    if not Path(home).exists():
        raise JavaError(f"{needed}JAVA_HOME is {home}, which is not there", None)
    if not candidate.is_file():
        raise JavaError(f"{needed}JAVA_HOME is {home}, where there is no bin/java", None)
    return str(candidate)


def check_java() -> Java:
    """Find the Java that Spark would start, before anything of Spark is imported.

    Raises JavaError if it is missing, does not start, or is older than 17.
    """
    executable = _executable()
    try:
        asked = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise JavaError(f"Spark needs Java, and {executable} does not start: {error.strerror}", None) from error
    match = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    if match is None:
        raise JavaError(f"Spark needs Java {MINIMUM} or later, and {executable} does not say its version", None)
    version = match.group(1)
    numbers = [int(part) for part in re.findall(r"\d+", version)] or [0]
    major = numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    if major < MINIMUM:
        raise JavaError(f"Spark needs Java {MINIMUM} or later, and {executable} is Java {version}", version)
    return Java(executable, version)


_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def end_start_by_signal(folder: Path, process: subprocess.Popen[bytes]) -> Callable[[], None]:
    """End the process by SIGTERM or SIGHUP while Spark starts, with a message and without leftovers.

    It kills the JVM with its child processes, then removes the folder, and ends by the signal. Signals that are handled
    or ignored already, as under `nohup`, are not touched. Returns a function that ends the handling, to be called on
    the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    mine = [number for number in _SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    owner, stderr = os.getpid(), os.dup(2)  # the start's own stderr goes to a file

    def end(number: int, _: FrameType | None) -> None:
        if os.getpid() == owner:  # not in a child of this process
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # it has a session of its own
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)  # `wait` takes a lock, which the interrupted thread may hold
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                os.write(stderr, f"ended by {signal.Signals(number).name} while Spark starts\n".encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        os._exit(128 + number)  # the first process of a container is not ended by it

    for number in mine:
        signal.signal(number, end)

    def over() -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # other threads cannot set handlers
        for number in mine:
            if signal.getsignal(number) is end:
                signal.signal(number, signal.SIG_DFL)
        with suppress(OSError):
            os.close(stderr)

    return over


# The folder of the files that a process gives to Spark, and of Spark's own temporary files.
#
# It is removed when the process ends. If the process was killed, the next one removes it. A process has a lock on its
# folder, which the kernel releases at the end of the process. A process id does not suffice, because containers that
# share a directory for temporary files have ids of their own. Programs that remove old temporary files respect such a
# lock, too (https://systemd.io/TEMPORARY_DIRECTORIES).

_PREFIX = "headwater-spark-"

_LONGEST_SOCKET = 103
"""The most bytes of a socket's path: on Linux 107, on macOS 103."""


def spark_folder() -> Path:
    """Create a folder for this user only. Removes folders of dead processes. Raises OSError."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another user's, or another process is removing it
            _remove_left(path)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if _locked(folder) is not None:  # else another process has removed it as a leftover
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder


def sockets_in(folder: Path) -> dict[str, str]:
    """Settings for Unix sockets between the JVM and its Python processes, in a folder of this user; empty if its path
    is too long.

    Over TCP a job takes 35 ms longer, a third of a small epoch (docs/internals/measurements.md): neither side sets
    TCP_NODELAY, so the system delays small writes until the one before is acknowledged, which may take 40 ms.
    """
    if len(os.fsencode(folder / ".12345678-1234-1234-1234-123456789abc.sock")) > _LONGEST_SOCKET:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _remove_left(folder: Path) -> None:
    """Remove the folder of a dead process. Raises OSError."""
    handle = _locked(folder)
    if handle is not None:
        try:
            shutil.rmtree(folder)
        finally:
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """An open, locked handle of a folder of this user; None if another process has locked or removed it.

    Raises OSError if it is not a folder.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between `open` and `flock` another process may have replaced the folder by a new one of this name.
        opened, there = os.fstat(handle), folder.stat()
        if os.path.samestat(opened, there) and stat.S_ISDIR(there.st_mode) and there.st_uid == os.getuid():
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(handle)
        raise
    os.close(handle)
    return None
