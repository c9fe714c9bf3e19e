"""JVMs that start quickly, for tests.

    python tests/quick_jvm.py

keeps the classes that Spark loads for a small project in a file; later JVMs then start with half the work.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

CLASSES = Path(sys.prefix) / ".spark-classes.jsa"

ONCE_COMPILED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that start or run small jobs: it costs more than it gives to compile their code a second time."""


def quick_jvm() -> str:
    """Options of a JVM. One that cannot use the file of classes starts without it, and says nothing."""
    if not CLASSES.exists():
        return ONCE_COMPILED
    return f"{ONCE_COMPILED} -XX:SharedArchiveFile={CLASSES} -Xlog:cds=off -Xlog:cds+dynamic=off"


def keep_classes() -> None:
    """Build a new project on a JVM that writes the file when it ends."""
    from click.testing import CliRunner

    from headwater import Project
    from headwater.cli.main import main
    from headwater.runtime.cluster.spark.session import start_session

    made = CLASSES.with_suffix(".new")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{ONCE_COMPILED} -XX:ArchiveClassesAtExit={made} -Xlog:disable -Xlog:all=off"
    session = start_session({"master": "local[2]"}, "headwater-classes")
    jvm = session.sparkContext._gateway.proc  # type: ignore[union-attr]
    with TemporaryDirectory() as folder:
        CliRunner().invoke(main, ["init", "shop", "--project-dir", f"{folder}/shop"], catch_exceptions=False)
        Project(f"{folder}/shop", session=session).build()
    session.stop()
    jvm.stdin.close()
    jvm.wait()
    made.replace(CLASSES)


if __name__ == "__main__":
    keep_classes()
