"""Processes that tests look at while they may end at any moment."""

from __future__ import annotations

from collections.abc import Iterator

import psutil


def has_ended(process: psutil.Process | int) -> bool:
    """Whether a process, or that of a pid, has ended, its exit taken notice of by its parent or not."""
    try:
        process = psutil.Process(process) if isinstance(process, int) else process
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def command_lines(ancestor: psutil.Process) -> Iterator[tuple[psutil.Process, list[str]]]:
    """The running descendants of a process, each with its command line; those that end meanwhile are left out."""
    for process in ancestor.children(recursive=True):
        try:
            words = [] if process.status() == psutil.STATUS_ZOMBIE else process.cmdline()
        except psutil.NoSuchProcess:
            continue
        yield process, words


def called(name: str, ancestor: psutil.Process) -> list[psutil.Process]:
    """The running descendants of a process that have this name."""
    found = []
    for process in ancestor.children(recursive=True):
        try:
            if process.name() == name and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found
