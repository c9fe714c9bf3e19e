"""The folder of generated files, written by several at the same time."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

from headwater.compiler.emit.target import emit
from headwater.compiler.language.type_checker import VerdictCache
from headwater.private_files import write_whole
from headwater.runtime.ir.topology import PluginRef, Settings

SETTINGS = Settings(PluginRef("embedded"), "state")


def write_again_and_again(path: str, letter: str) -> None:
    for _ in range(60):
        write_whole(Path(path), letter.encode() * 100_000)


def manifest_again_and_again(target: str, number: int) -> None:
    for turn in range(30):
        content: dict[str, Any] = {"topologies": [], "by": number, "turn": turn}
        emit(Path(target), (), SETTINGS, content)


def at_once(work: Any, *arguments: tuple[Any, ...]) -> list[int | None]:
    """Exit codes of processes that do the same at the same time."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=given) for given in arguments]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def test_file_that_two_write_at_once_is_that_of_one(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "file"

    assert at_once(write_again_and_again, (str(path), "a"), (str(path), "b")) == [0, 0]

    assert set(path.read_text()) in ({"a"}, {"b"})
    assert [each.name for each in path.parent.iterdir()] == ["file"]


def test_target_that_two_write_at_once_is_whole(tmp_path: Path) -> None:
    assert at_once(manifest_again_and_again, (str(tmp_path), 1), (str(tmp_path), 2)) == [0, 0]

    assert json.loads((tmp_path / "manifest.json").read_text())["turn"] == 29


def test_what_a_killed_compile_left_half_written_is_removed_by_the_next(tmp_path: Path) -> None:
    for folder in ("sales", ".cache"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / ".job.py.0123.partial").write_text("half")

    emit(tmp_path, (), SETTINGS, {"topologies": []})

    assert not list((tmp_path / "sales").iterdir())
    assert len(list((tmp_path / ".cache").iterdir())) == 1


def test_verdicts_are_kept_in_a_file_of_which_nobody_sees_a_part(tmp_path: Path) -> None:
    first, second = (VerdictCache(tmp_path / "expressions.json") for _ in range(2))
    first.put(("a", ""), "int")
    second.put(("b", ""), "int")
    first.save()
    second.save()

    assert [each.name for each in tmp_path.iterdir()] == ["expressions.json"]
