"""docs/tutorial.md: its files and commands, in order, print what the page shows, but for times, rates and sizes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater import Project
from headwater.tests.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^(?:\$ (.*)|\^C)\n((?:(?!\$ |\^C).*\n)*)", re.MULTILINE)
HOME, PORT = "/home/you", "9464"
MASKS = (
    (r"^.*: commit \d+, .*\n", ""),  # how many epochs there are is the machine's affair
    (r"^\d\d:\d\d:\d\d ", "AT "),
    (r"\b20[2-9]\d-\d\d-\d\dT[\d:.]+Z", "NOW"),
    (r"\b[\d.]+ (s|ms|B|kB|MB)\b", "SOME"),
    (r"\b[\d,]+/s", "RATE"),
    (r"generation (\d+) on \S+ process \d+, ", r"generation \1, "),
    (r"\bin \d+ commits?", "in commits"),
    (r"(caught up|interrupted) +([\d,]+) +\d+ ", r"\1 \2 "),
    (r"^(\S+) +[\d,]+ +SOME +\w+ \d+%", r"\1 RATE"),
    (r" +", " "),
)


def masked(output: str) -> str:
    for pattern, instead in MASKS:
        output = re.sub(pattern, instead, output, flags=re.MULTILINE)
    return output


class Reader:
    """Somebody who does what the page says: `folder` is where the terminal is."""

    def __init__(self, home: Path) -> None:
        self.home = self.folder = home
        self.appended = 0
        self.going_on: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])

    def write(self, text: str) -> None:
        path = self.folder / text.partition("\n")[0].removeprefix("# ")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")

    def change(self, text: str) -> None:
        head, *lines = text.splitlines(keepends=True)
        path = self.folder / head.removeprefix("--- ").strip()
        before, after = ("".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
        assert path.read_text("utf-8").count(before) == 1
        path.write_text(path.read_text("utf-8").replace(before, after), "utf-8")

    def call(self, command: str) -> str:
        """What a command prints. One that goes on prints at its end, when the call is empty for Ctrl-C."""
        if command.startswith("cd "):
            self.folder /= command.removeprefix("cd ")
        elif command.startswith("headwater run"):
            with self.output.open("wb") as output:
                self.going_on = self.start(command, output.fileno())
        elif not command:
            assert self.going_on is not None
            os.killpg(self.going_on.pid, signal.SIGINT)
            assert self.going_on.wait() == 0
            return self.as_shown(self.output.read_text("utf-8"))
        else:
            if self.going_on is not None:
                wait_until(self.settled, self.goes_on, self.output.read_text)
            self.appended += "--append" in command
            return self.as_shown(self.printed(command))
        return ""

    @property
    def output(self) -> Path:
        return self.home / "run.txt"

    def goes_on(self) -> bool:
        return self.going_on is not None and self.going_on.poll() is None

    def settled(self) -> bool:
        """Whether the run has done all that there is: tasks run, and each record that was appended has come through."""
        found = Project(self.folder).tasks()[0].to_json()
        tasks = [task for client in found["run"]["clients"] for task in client["tasks"]]
        through = self.output.read_text("utf-8").count("/by_day: commit ")
        return (
            found["condition"] == "running"
            and through >= self.appended
            and all(task["state"] == "running" and task["lag"] == 0 for task in tasks)
        )

    def printed(self, command: str) -> str:
        return self.start(command, subprocess.PIPE).communicate()[0].decode()

    def start(self, command: str, output: int) -> subprocess.Popen[bytes]:
        paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return subprocess.Popen(
            ["bash", "-c", command.replace(PORT, self.port)],
            cwd=self.folder,
            env={**os.environ, "PATH": paths},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def as_shown(self, output: str) -> str:
        output = output.replace(str(self.home), HOME).replace(self.port, PORT)
        return output.replace(f"on {socket.gethostname()}, process", "on laptop, process")


@contextmanager
def reader(home: Path) -> Iterator[Reader]:
    made = Reader(home)
    try:
        yield made
    finally:
        if made.going_on is not None and made.goes_on():
            os.killpg(made.going_on.pid, signal.SIGKILL)
            made.going_on.wait()


@pytest.mark.spark
@pytest.mark.slow
def test_commands_print_what_the_page_shows(tmp_path: Path, update_golden: bool) -> None:
    page = PAGE.read_text("utf-8")
    with reader(tmp_path) as who:

        def answered(call: re.Match[str]) -> str:
            first = call[0].splitlines(keepends=True)[0]
            return first + who.call(call[1] or "")

        def done(block: re.Match[str]) -> str:
            language, text = block.groups()
            if language in ("python", "yaml"):
                who.write(text)
            elif language == "diff":
                who.change(text)
            elif language == "console":
                text = CALL.sub(answered, text)
            return f"```{language}\n{text}```"

        found = BLOCK.sub(done, page)
    if update_golden:
        PAGE.write_text(found, "utf-8")
    else:
        assert masked(found) == masked(page), "pytest --update-golden writes what was printed"
