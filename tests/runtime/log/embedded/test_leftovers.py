"""What a killed process left in a log is gone after the next look at it."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

from headwater.runtime.log.embedded.log import GRACE_S, EmbeddedLog, remove_leftovers


def test_log_is_rid_of_what_died_processes_left(tmp_path):
    log = EmbeddedLog(tmp_path / "log")
    log.check()
    commits, segments = log.root / "commits", log.root / "segments"
    dropped = [kind / f".p-gone-{'0' * 32}" for kind in (commits, segments)]
    for folder in (*dropped, commits / "p-a", segments / "p-a"):
        folder.mkdir(parents=True)
        (folder / "000000000001.json").write_text("{}")
    old = [log.root / f".{'1' * 32}.tmp", commits / "p-a" / f".{'2' * 32}.tmp"]
    young = commits / "p-a" / f".{'3' * 32}.tmp"
    for path in (*old, young):
        path.write_text("half")
    for path in old:
        os.utime(path, (0, path.stat().st_mtime - GRACE_S - 1))

    log.check()

    assert not any(path.exists() for path in (*dropped, *old))
    assert young.exists()
    assert (commits / "p-a" / "000000000001.json").exists()
    assert (segments / "p-a" / "000000000001.json").exists()


def test_application_is_dropped_though_another_process_removes_it_as_a_leftover(tmp_path):
    log = EmbeddedLog(tmp_path / "log")
    log.check()
    dropped = threading.Event()

    def clear_up() -> None:
        while not dropped.is_set():
            remove_leftovers(log.root)

    with ThreadPoolExecutor(1) as other:
        clearing = other.submit(clear_up)
        try:
            for number in range(20):
                folder = log.root / "segments" / f"p-{number}"
                for file in range(100):
                    (folder / f"topic-{file}").mkdir(parents=True)
                log.drop(folder.name)
        finally:
            dropped.set()
        clearing.result()

    assert os.listdir(log.root / "segments") == []
