"""Is there a Java that Spark 4 can run on? Asked before anything of Spark is imported."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ...errors import HeadwaterError

MINIMUM = 17
"""Spark 4 runs on Java 17 and later (Spark 4.0 migration guide)."""


class JavaError(HeadwaterError):
    """No Java, or one that is too old: `found` is its version text, None when there is none."""

    def __init__(self, message: str, found: str | None) -> None:
        super().__init__(message, f"install a JDK or JRE {MINIMUM} or later and put it on the PATH, or set JAVA_HOME")
        self.found = found


@dataclass(frozen=True)
class Java:
    """A Java that will do: its executable and its version."""

    executable: str
    version: str


def _executable() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        candidate = Path(home) / "bin" / "java"
        return str(candidate) if candidate.exists() else None
    return shutil.which("java")


def check_java() -> Java:
    """Find the Java that Spark would start.

    Raises JavaError with one sentence when there is none, when it does not start, or when it is older than 17.
    """
    executable = _executable()
    if executable is None:
        where = "at JAVA_HOME" if os.environ.get("JAVA_HOME") else "on this machine"
        raise JavaError(f"Spark needs Java {MINIMUM} or later, and there is no Java {where}", None)
    try:
        asked = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise JavaError(f"Spark needs Java, and {executable} does not start: {error}", None) from error
    found = re.search(r'version "([^"]+)"', asked.stderr + asked.stdout)
    if found is None:
        raise JavaError(f"Spark needs Java {MINIMUM} or later, and {executable} does not say its version", None)
    version = found.group(1)
    numbers = [int(part) for part in re.findall(r"\d+", version)] or [0]
    major = numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
    if major < MINIMUM:
        raise JavaError(f"Spark needs Java {MINIMUM} or later, and {executable} is Java {version}", version)
    return Java(executable, version)
