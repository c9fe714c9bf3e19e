"""The folder for what a process hands to Spark: of its own, gone with it, and with the next one if it was killed."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from pathlib import Path

from ..state.machine import started_at

_NAME = re.compile(r"headwater-spark-(?P<pid>\d{1,9})-.+")


def spark_folder() -> Path:
    """Make one, for this user only; remove those of processes that are gone."""
    for path in Path(tempfile.gettempdir()).glob("headwater-spark-*-*"):
        left = _NAME.fullmatch(path.name)
        if left is not None and started_at(int(left["pid"])) is None:
            shutil.rmtree(path, ignore_errors=True)  # those of other users stay
    folder = Path(tempfile.mkdtemp(prefix=f"headwater-spark-{os.getpid()}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
