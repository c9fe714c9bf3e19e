from __future__ import annotations

import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from headwater.runtime.cluster.spark.jvm import sockets_in, spark_folder

PROGRAM = """
import tempfile, sys
tempfile.tempdir = sys.argv[1]
from headwater.runtime.cluster.spark.jvm import spark_folder
print(spark_folder(), flush=True)
input()
"""


def test_sockets_lie_in_the_folder_where_their_paths_are_short_enough() -> None:
    assert set(sockets_in(Path("/tmp/headwater-spark-abcdefgh/tmp")).values()) == {
        "true",
        "/tmp/headwater-spark-abcdefgh/tmp",
    }
    with socket.socket(socket.AF_UNIX) as longest:
        folder = Path("/", "x" * 59)
        assert sockets_in(folder)
        with pytest.raises(FileNotFoundError):  # it is not there, but it could be
            longest.bind(str(folder / f".{uuid.uuid4()}.sock"))
    assert sockets_in(Path("/", "x" * 60)) == {}


def test_folder_lasts_as_long_as_its_process_whatever_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # A folder of a process that is gone, whose id this process cannot have seen: as of another container.
    (tmp_path / "headwater-spark-999999999-abc").mkdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "headwater-spark-link").symlink_to(elsewhere)
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        # What names the folder is not what tells whether it is in use.
        renamed = theirs.rename(tmp_path / "headwater-spark-999999999-of-another-container")

        mine = spark_folder()

        assert mine.is_dir()
        assert {path.name for path in tmp_path.glob("headwater-spark-*")} == {
            mine.name,
            renamed.name,
            "headwater-spark-link",
        }
        other.kill()
        other.wait()

    again = spark_folder()

    assert mine.is_dir()
    assert again.is_dir()
    assert not renamed.exists()
    assert elsewhere.is_dir()
