from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.log import LogFileError


def test_log_has_an_identity_from_its_first_check_on_and_copies_keep_it(tmp_path):
    log = EmbeddedLog(tmp_path / "log")
    assert log.identity() == ""
    log.check()
    first = log.identity()
    log.check()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    assert first == log.identity() == EmbeddedLog(tmp_path / "copy").identity()
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == ["log.json"]


def test_logs_differ(tmp_path):
    logs = [EmbeddedLog(tmp_path / name) for name in ("a", "b")]
    for log in logs:
        log.check()
    assert logs[0].identity() != logs[1].identity()


def test_processes_that_make_a_log_at_once_agree_on_its_identity(tmp_path):
    logs = [EmbeddedLog(tmp_path / "log") for _ in range(8)]

    def made(log):
        log.check()
        return log.identity()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(made, logs))) == 1


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"id": 7}', '{"id": "no uuid"}', "null"])
def test_damaged_file_is_refused_and_stays(tmp_path, content):
    (tmp_path / "log.json").write_text(content)
    with pytest.raises(LogFileError):
        EmbeddedLog(tmp_path).check()
    assert (tmp_path / "log.json").read_text() == content
