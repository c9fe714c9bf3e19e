from __future__ import annotations

import os

from headwater.runtime.engine.spark_folder import spark_folder


def test_folders_of_dead_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    dead, alive = (tmp_path / f"headwater-spark-{pid}-abc" for pid in (999_999_999, os.getpid()))
    for path in (dead, alive):
        path.mkdir()

    made = spark_folder()

    assert (dead.exists(), alive.exists(), made.is_dir()) == (False, True, True)
