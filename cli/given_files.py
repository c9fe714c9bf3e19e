"""Files, pipes and JSON that a command is given."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import click

from ..errors import HeadwaterError
from ..unusable_paths import file_kind
from .printing.terminal import tell

# Files that arguments name: what is no file is refused, and nothing is waited for without a word.
#
# A pipe is read (`--against <(curl ...)`), but it may have no writer yet, and a terminal waits for somebody to type.


class GivenPath(click.Path):
    """A file that a command reads as a whole."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a usage error for a socket or a device without an end."""
        found = super().convert(value, param, ctx)
        _check(self, found, param, ctx, "until somebody writes to it and closes it")
        return found


class WrittenPath(click.Path):
    """A file that a command writes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a usage error for a socket or a disk."""
        found = super().convert(value, param, ctx)
        _check(self, found, param, ctx, "until somebody reads from it", written=True)
        return found


class GivenLines(click.File):
    """A file that a command reads line by line, or standard input, which may be closed."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The file, open; a usage error where there is none."""
        if value == "-" and sys.stdin is None:
            self.fail("standard input is closed; name a file", param, ctx)
        if value == "-" and sys.stdin.isatty():
            tell("reading standard input, a terminal, until Ctrl-D", err=True)
        elif value != "-" and isinstance(value, str | os.PathLike):
            _check(self, value, param, ctx, "until somebody writes to it and closes it")
        return super().convert(value, param, ctx)


def _check(
    kind: click.ParamType[Any],
    path: str | bytes | os.PathLike[str],
    param: click.Parameter | None,
    ctx: click.Context | None,
    until: str,
    written: bool = False,
) -> None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # what opens it says why
        return
    if stat.S_ISFIFO(mode):
        tell(f"waiting for {os.fsdecode(path)}, {file_kind(mode)}, {until}", err=True)
    elif stat.S_ISSOCK(mode) or stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not (written or _ends(path))):
        kind.fail(f"{os.fsdecode(path)} is {file_kind(mode)}: name a file", param, ctx)


def _ends(path: str | bytes | os.PathLike[str]) -> bool:
    """Whether a device is one that has an end: a terminal, whose reader is told, or `/dev/null`."""
    if os.path.samefile(path, os.devnull):
        return True
    handle = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        if not os.isatty(handle):
            return False
    finally:
        os.close(handle)
    tell(f"{os.fsdecode(path)} is a terminal: Ctrl-D ends what is read from it", err=True)
    return True


# Records from a file of JSON lines.


def records_of(source: Any) -> list[dict[str, Any]]:
    """JSON objects, one a line, in the form that `headwater read --format json` prints. Raises HeadwaterError."""
    from ..runtime.ingest.incoming import numbered_lines  # load Arrow, which help does without
    from ..runtime.records.values import parse_json

    records = []
    name = Path(getattr(source, "name", "<stdin>")).name
    for number, line in numbered_lines(source, name):
        if not line.strip():
            continue
        try:
            record = parse_json(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise HeadwaterError(f"{name}:{number}: this is not UTF-8", "write the records in UTF-8") from error
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise HeadwaterError(f"{name}:{number}: this is not JSON: {reason}", "give one object a line") from error
        if not isinstance(record, dict):
            raise HeadwaterError(f"{name}:{number}: a record is a JSON object", "give one object a line")
        records.append(record)
    return records
