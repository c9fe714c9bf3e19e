"""Checks for a Java that Spark 4 can run on, before anything of Spark is imported."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ....errors import HeadwaterError

MINIMUM = 17
"""Spark 4 runs on Java 17 and later (Spark 4.0 migration guide)."""

_HOME = "JAVA_HOME"
"""The environment variable that takes precedence over the PATH, for Spark and here."""


class JavaError(HeadwaterError):
    """There is no Java, or it is too old. `found`: its version, None if there is none."""

    def __init__(self, message: str, found: str | None) -> None:
        super().__init__(
            message,
            f"set JAVA_HOME to the folder of a JDK or JRE {MINIMUM} or later, or unset it and put one on the PATH"
            if os.environ.get(_HOME)
            else f"install a JDK or JRE {MINIMUM} or later and put it on the PATH, or set JAVA_HOME to its folder",
        )
        self.found = found


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
        found = shutil.which("java")
        if found is None:
            raise JavaError(f"{needed}there is no java on the PATH", None)
        return found
    candidate = Path(home) / "bin" / "java"
    if not Path(home).exists():
        raise JavaError(f"{needed}JAVA_HOME is {home}, which is not there", None)
    if not candidate.is_file():
        raise JavaError(f"{needed}JAVA_HOME is {home}, where there is no bin/java", None)
    return str(candidate)


def check_java() -> Java:
    """Find the Java that Spark would start.

    Raises JavaError if there is none, if it does not start, or if it is older than 17.
    """
    executable = _executable()
    try:
        asked = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise JavaError(f"Spark needs Java, and {executable} does not start: {error.strerror}", None) from error
    found = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    if found is None:
        raise JavaError(f"Spark needs Java {MINIMUM} or later, and {executable} does not say its version", None)
    version = found.group(1)
    numbers = [int(part) for part in re.findall(r"\d+", version)] or [0]
    major = numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    if major < MINIMUM:
        raise JavaError(f"Spark needs Java {MINIMUM} or later, and {executable} is Java {version}", version)
    return Java(executable, version)
