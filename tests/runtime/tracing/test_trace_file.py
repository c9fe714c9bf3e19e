from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from headwater.runtime.observe.tracing import Slice, TraceFile, TraceFileError, Track

FIRST, SECOND = Track("app", "driver"), Track("app on client-1", "thread 1")


def content(path: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(path.read_text())["traceEvents"]
    return found


def test_slices_are_complete_events_in_microseconds_on_named_tracks(tmp_path):
    path = tmp_path / "run.json"
    file = TraceFile(path, 100.0)
    assert content(path) == []
    file.add([Slice(FIRST, "epoch 1", 100.5, 100.7, {"records": 3}), Slice(SECOND, "task 0_1", 100.6, 100.65)], 1)

    *names, epoch, task = sorted(content(path), key=lambda each: each["ph"] == "X")
    assert epoch == {"ph": "X", "name": "epoch 1", "pid": 1, "tid": 1, "ts": 500_000, "dur": 200_000} | {
        "args": {"records": 3}
    }
    assert task == {"ph": "X", "name": "task 0_1", "pid": 2, "tid": 2, "ts": 600_000, "dur": 50_000}
    assert [
        (each["name"], each["pid"], each["tid"], each["args"]) for each in names if "index" not in each["name"]
    ] == [
        ("process_name", 1, 1, {"name": "app"}),
        ("thread_name", 1, 1, {"name": "driver"}),
        ("process_name", 2, 2, {"name": "app on client-1"}),
        ("thread_name", 2, 2, {"name": "thread 1"}),
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_file_that_grows_large_keeps_the_newer_half_and_the_names(tmp_path):
    path = tmp_path / "run.json"
    file = TraceFile(path, 0.0, 5_000)
    sizes = []
    for number in range(200):
        file.add(
            [Slice(FIRST, f"epoch {number}", number, number + 1), Slice(SECOND, f"task {number}", number, number)], 1
        )
        sizes.append(path.stat().st_size)
        slices = [each for each in content(path) if each["ph"] == "X"]
        kept = range(file.left_out, number + 1)
        assert [each["name"] for each in slices] == [f"{kind} {each}" for each in kept for kind in ("epoch", "task")]
        assert {each["args"]["name"] for each in content(path) if each["name"].endswith("_name")} == {*FIRST, *SECOND}
    assert max(sizes) <= 5_000 + 1_000
    assert min(sizes[100:]) < 4_000
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]


def test_trace_is_replaced_and_anything_else_is_not(tmp_path):
    path = tmp_path / "run.json"
    for _ in range(2):
        TraceFile(path, 0.0).add([Slice(FIRST, "epoch", 0, 1)], 1)
    assert len(content(path)) == 5

    path.write_text("clients: 3\n")
    with pytest.raises(TraceFileError, match="the file exists and is no trace; it is not overwritten") as error:
        TraceFile(path, 0.0)
    assert error.value.path == path
    assert path.read_text() == "clients: 3\n"

    with pytest.raises(TraceFileError, match=r"nowhere/run.json: No such file or directory"):
        TraceFile(tmp_path / "nowhere" / "run.json", 0.0)
    with pytest.raises(TraceFileError, match="Is a directory"):
        TraceFile(tmp_path, 0.0)
    with pytest.raises(TraceFileError, match="it is no regular file"):
        TraceFile(Path("/dev/null"), 0.0)
