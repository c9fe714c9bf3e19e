"""Pipes, sockets, devices and terminals in the place of files: read or refused, and never waited for without a word."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import Result

Headwater = Callable[..., Result]

RECORD = {
    "key": {"order_id": 1},
    "value": {"product": "tea", "quantity": 1, "price": 2.0, "ordered_at": "2024-05-01T08:00:00Z"},
}


@contextmanager
def written_to(pipe: Path, content: bytes) -> Iterator[None]:
    """Somebody who writes to a pipe once it is opened, and closes it."""
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    try:
        yield
    finally:
        writer.join()


@pytest.mark.parametrize("name", ["orders.csv", "orders.jsonl", "orders.parquet"])
@pytest.mark.parametrize("command", ["seed", "plan"])
def test_seed_that_is_a_pipe_is_refused(headwater: Headwater, shop: Path, command: str, name: str) -> None:
    topics = shop / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("seeds/orders.csv", f"seeds/{name}"))
    (shop / "seeds" / "orders.csv").unlink()
    os.mkfifo(shop / "seeds" / name)

    result = headwater(command)

    assert f"{name}: a pipe, and no file" in result.output
    assert headwater("compile").exit_code == 0  # it tells of changes where it can


def test_seed_that_is_a_socket_or_a_device_is_refused(headwater: Headwater, shop: Path, tmp_path: Path) -> None:
    seed = shop / "seeds" / "orders.csv"
    seed.unlink()
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(os.path.relpath(seed))
        assert "seeds/orders.csv: a socket, and no file" in headwater("seed").stderr
    topics = shop / "topics" / "orders.yml"
    topics.write_text(topics.read_text().replace("seeds/orders.csv", "/dev/zero"))

    assert headwater("seed").exit_code == 1


def test_records_of_a_pipe_are_appended_and_the_pipe_is_named(headwater: Headwater, tmp_path: Path) -> None:
    pipe = tmp_path / "records"
    with written_to(pipe, json.dumps(RECORD).encode()):
        result = headwater("seed", "orders", "--append", "--file", str(pipe))

    assert result.stdout == "appended 1 record to orders\n"
    assert f"waiting for {pipe}, a pipe, until somebody writes to it and closes it\n" in result.stderr


@pytest.mark.parametrize("option", ["--against", "--plan"])
def test_manifest_or_plan_of_a_pipe_is_read_and_the_pipe_is_named(
    headwater: Headwater, shop: Path, tmp_path: Path, option: str
) -> None:
    assert headwater("compile").exit_code == 0
    assert headwater("plan", "--out", str(tmp_path / "plan.json")).exit_code == 0
    made = shop / "target" / "manifest.json" if option == "--against" else tmp_path / "plan.json"
    pipe = tmp_path / "made"
    with written_to(pipe, made.read_bytes() if option == "--against" else b"{}"):
        result = headwater("plan" if option == "--against" else "run", option, str(pipe))

    assert f"waiting for {pipe}, a pipe" in result.stderr
    assert ("it is no plan" in result.stderr) if option == "--plan" else (result.exit_code == 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ("seed", "orders", "--append", "--file"),
        ("retry", "orders", "--file"),
        ("plan", "--against"),
        ("run", "--plan"),
        ("assign",),
    ],
)
def test_device_without_an_end_and_socket_are_wrong_use(
    headwater: Headwater, tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("s")
        for path, kind in (("/dev/zero", "a device"), ("s", "a socket")):
            result = headwater(*arguments, path)
            assert f"{path} is {kind}: name a file" in result.stderr
            assert result.exit_code != 0


def test_plan_is_written_to_a_pipe_and_the_pipe_is_named(headwater: Headwater, tmp_path: Path) -> None:
    pipe = tmp_path / "plan"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    result = headwater("plan", "--out", str(pipe))
    reader.join()

    assert "project" in json.loads(read[0])
    assert f"waiting for {pipe}, a pipe, until somebody reads from it" in result.stderr


@pytest.mark.parametrize("arguments", [("seed", "orders", "--append"), ("assign",)])
def test_terminal_that_is_waited_for_is_named(shop: Path, arguments: tuple[str, ...]) -> None:
    screen, terminal = os.openpty()
    command = [sys.executable, "-m", "headwater.cli.main", *arguments]
    with subprocess.Popen(command, cwd=shop, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stderr is not None
        line = started.stderr.readline()
        os.write(screen, b"\x04")  # Ctrl-D
        assert started.wait() == 0
    os.close(terminal)
    os.close(screen)
    assert line == b"reading standard input, a terminal, until Ctrl-D\n"
