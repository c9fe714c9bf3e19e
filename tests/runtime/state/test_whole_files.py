from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

from headwater.runtime.state.offset_checkpoint import write_whole

PROGRAM = """
import sys
from pathlib import Path
from headwater.runtime.state.offset_checkpoint import write_whole
for _ in range(300):
    write_whole(Path(sys.argv[1]), sys.argv[2])
"""


def test_what_a_killed_writer_has_left_goes_with_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / ".0.commit"
    for name in (".0.commit.17", ".0.commit.1", ".1.commit.17", ".0.commit.txt"):
        (tmp_path / name).touch()

    write_whole(path, "new")

    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {each.name for each in tmp_path.iterdir()} == {".0.commit", ".1.commit.17", ".0.commit.txt"}


def test_of_many_writers_at_once_each_writes_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    texts = ["a" * 5_000, "b" * 5_000]
    writers = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(path), text]) for text in texts]

    assert [writer.wait() for writer in writers] == [0, 0]
    assert path.read_text() in texts
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
