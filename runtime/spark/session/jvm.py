"""Spark's JVM in a process of its own. It takes a second to start, in which this process can do other things.

PySpark's own `launch_gateway` starts it and waits. Here both are apart, and `launch_gateway` connects to the JVM as to
one that somebody else has started.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The environment variable with a user's own arguments for the start of the JVM."""

_ANSWER = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The environment variable that tells the JVM where to write its port and its secret."""

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
"""The environment variables that tell PySpark of a JVM that is there."""

_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Jvm:
    """A JVM that was started. `folder`: where it finds its settings, and leaves its answer."""

    process: subprocess.Popen[bytes]
    folder: Path

    def connect(self) -> None:
        """Wait until it answers, and make it PySpark's. Raises PySparkRuntimeError if it has ended before."""
        from pyspark import SparkContext
        from pyspark.errors import PySparkRuntimeError
        from pyspark.java_gateway import launch_gateway
        from pyspark.serializers import UTF8Deserializer, read_int

        while not self._answer.exists():
            if self.process.poll() is not None:
                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            time.sleep(_LOOK_SECONDS)
        self._settings.unlink()
        with self._answer.open("rb") as file:
            os.environ[_PORT], os.environ[_SECRET] = str(read_int(file)), UTF8Deserializer().loads(file)
        try:
            gateway: Any = launch_gateway()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]
        gateway.proc = self.process
        SparkContext._ensure_initialized(gateway=gateway)

    def end(self) -> None:
        """End it, if nothing has been connected to it."""
        self.process.terminate()
        self.process.communicate()
        self._settings.unlink(missing_ok=True)

    @property
    def _answer(self) -> Path:
        return _answer_in(self.folder)

    @property
    def _settings(self) -> Path:
        return _settings_in(self.folder)


def start_jvm(settings: Mapping[str, str], folder: Path, log: Path | None) -> Jvm:
    """Start the JVM with its settings in a private file in `folder`. `log`: a file for its stderr, or None.

    PySpark itself would put them on the command line, which everybody on the machine can read. The JVM gets a session
    of its own: a signal to this process's group, such as Ctrl-C in a terminal, must not end Spark before the open epoch
    is committed. The JVM ends with this process in any case, because it then reads the end of its standard input.

    Raises OSError.
    """
    path = _settings_in(folder)
    path.touch(mode=0o600)
    # JSON's escapes are valid in a file of Java properties, and cover all that needs escaping there.
    own = {key: value for key, value in settings.items() if key.startswith("spark.")}  # the context gets the others
    path.write_text("".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in own.items()), "ascii")
    home = spark_home()
    given = shlex.split(os.environ.get(_ARGUMENTS) or "pyspark-shell")
    command = [f"{home}/bin/spark-submit", "--properties-file", str(path), "--load-spark-defaults", *given]
    environment = {
        **os.environ,
        "SPARK_HOME": home,  # otherwise a script asks Python for it
        "SPARK_CONNECT_MODE": "0",
        _ANSWER: str(_answer_in(folder)),
    }
    with open(os.devnull if log is None else log, "ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stderr=None if log is None else file,
            env=environment,
            start_new_session=True,
        )
    return Jvm(process, folder)


def spark_home() -> str:
    """The folder of Spark: that of the environment, else the one that comes with PySpark, which is not imported yet."""
    found = find_spec("pyspark")
    assert found is not None
    assert found.submodule_search_locations is not None
    return os.environ.get("SPARK_HOME") or found.submodule_search_locations[0]


def _settings_in(folder: Path) -> Path:
    return folder / "spark.properties"


def _answer_in(folder: Path) -> Path:
    return folder / "connection"
