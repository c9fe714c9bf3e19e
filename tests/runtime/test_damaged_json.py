"""Files of JSON that are read back nested absurdly deep: each one counts as damaged, and none ends in a stack trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.compiler.emit.target import emit
from headwater.compiler.language.type_checker import VerdictCache
from headwater.runtime.dataclass_json import parsed
from headwater.runtime.driver.status import RunStatus
from headwater.runtime.engine.execution.processing.batches import _header
from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.runtime.log.commit.encoding import decode_commit
from headwater.runtime.log.errors import CommitFormatError
from headwater.runtime.log.inspection.copying import CopyMark
from headwater.runtime.log.log import LogFileError, id_in
from headwater.runtime.log.state_parts.parts import Snapshot
from headwater.runtime.state.closed_stores import read_closed_positions
from headwater.runtime.state.offset_checkpoint import commit_mark_path, read_commit_mark
from headwater.runtime.state.process_file import ProcessFile
from headwater.runtime.task_id import StoreId

DEEP = "[" * 200_000


def status(_: Path) -> object:
    return RunStatus.from_text("shop-sales", DEEP)


def snapshot(_: Path) -> object:
    return Snapshot.decode(DEEP.encode())


def process_file(folder: Path) -> object:
    (folder / ".process.json").write_text(DEEP)
    return ProcessFile.read(folder)


def closed_stores(folder: Path) -> object:
    (folder / ".closed.json").write_text(DEEP)
    return read_closed_positions(folder, [StoreId("totals", 0)], lambda _: folder) or None


def verdicts(folder: Path) -> object:
    (folder / "types.json").write_text(DEEP)
    return VerdictCache(folder / "types.json").get(("a + 1", "a INT"))


@pytest.mark.parametrize("read", [status, snapshot, process_file, closed_stores, verdicts])
def test_what_can_be_done_without_counts_as_missing(read: Callable[[Path], object], tmp_path: Path) -> None:
    assert read(tmp_path) is None


def test_note_of_a_store_is_a_commit_that_no_log_has(tmp_path: Path) -> None:
    commit_mark_path(tmp_path / "0").write_text(DEEP)

    found = read_commit_mark(tmp_path / "0")

    assert found is not None
    assert found.number == 0


def test_mark_of_a_copy_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / ".copied.json").write_text(DEEP)

    assert CopyMark.read(tmp_path) == CopyMark("", {})


def test_commit_and_the_id_of_a_log_are_refused_as_damaged() -> None:
    with pytest.raises(CommitFormatError):
        decode_commit(DEEP.encode())
    with pytest.raises(LogFileError, match=r"s3://b/log\.json is damaged.*put it back from a copy"):
        id_in(DEEP.encode(), "s3://b/log.json")


def test_manifest_of_the_last_compilation_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(DEEP)

    emit(tmp_path, (), Settings(log=PluginRef("embedded"), state_dir="state"), {"topologies": []})

    assert parsed((tmp_path / "manifest.json").read_text())["topologies"] == []


def test_headers_that_a_processor_gives_are_no_json() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        _header(DEEP)
