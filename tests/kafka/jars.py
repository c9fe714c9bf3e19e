"""The jars of the broker that tests use.

    python tests/kafka/jars.py

fetches them with Maven, if they are not there yet. They are kept for all checkouts, as Maven's own cache is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

POM = Path(__file__).with_name("pom.xml")


def jars() -> Path:
    """The folder of the jars. Another pom has another folder."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "headwater" / f"kafka-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"


def missing() -> str | None:
    """Why a broker cannot run here, None if it can."""
    if shutil.which("java") is None:
        return "a Kafka broker needs Java"
    if not jars().is_dir():
        return f"the jars of a Kafka broker are not in {jars()}: `make kafka-jars` fetches them with Maven"
    return None


def fetch() -> None:
    """Fetch the jars. The folder appears when it has all of them."""
    folder = jars()
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        command = ["mvn", "--batch-mode", "--quiet", "--file", POM, "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={temporary}/jars", "-DincludeScope=runtime"], check=True)
        try:
            Path(temporary, "jars").rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise


if __name__ == "__main__":
    try:
        fetch()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the jars of a Kafka broker cannot be fetched: {error}")
