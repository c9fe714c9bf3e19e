"""Files, pipes and JSON given to a command."""

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
from .printing.terminal import print_line

# Files named by arguments. A socket or an endless device is an error, and waiting is announced.
#
# A pipe is read (`--against <(curl ...)`), but it may not have a writer yet; a terminal waits for typed input.


class InputPath(click.Path):
    """A file that a command reads as a whole."""

    written = False

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path. A socket, a disk or an endless device to read from is a usage error."""
        path = super().convert(value, param, ctx)
        _check(self, path, param, ctx, self.written)
        return path


class OutputPath(InputPath):
    """A file that a command writes."""

    written = True


class InputLines(click.File):
    """A file that a command reads line by line, or standard input, which the caller may have closed."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The open file. A missing file is a usage error."""
        if value == "-" and sys.stdin is None:
            self.fail("standard input is closed; name a file", param, ctx)
        if value == "-" and sys.stdin.isatty():
            print_line("reading standard input, a terminal, until Ctrl-D", err=True)
        elif value != "-" and isinstance(value, str | os.PathLike):
            _check(self, value, param, ctx)
        return super().convert(value, param, ctx)


def _check(
    kind: click.ParamType[Any],
    path: str | bytes | os.PathLike[str],
    param: click.Parameter | None,
    ctx: click.Context | None,
    written: bool = False,
) -> None:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # opening it reports why
        return
    if stat.S_ISFIFO(mode):
        until = "until somebody reads from it" if written else "until somebody writes to it and closes it"
        print_line(f"waiting for {os.fsdecode(path)}, {file_kind(mode)}, {until}", err=True)
    elif stat.S_ISSOCK(mode) or stat.S_ISBLK(mode) or (stat.S_ISCHR(mode) and not (written or _ends(path))):
        kind.fail(f"{os.fsdecode(path)} is {file_kind(mode)}: name a file", param, ctx)


def _ends(path: str | bytes | os.PathLike[str]) -> bool:
    """Whether a device has an end: a terminal (a line on stderr says how to end it) or `/dev/null`."""
    if os.path.samefile(path, os.devnull):
        return True
    handle = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        if not os.isatty(handle):
            return False
    finally:
        os.close(handle)
    print_line(f"{os.fsdecode(path)} is a terminal: end the input with Ctrl-D", err=True)
    return True


# Records from JSON lines.


def read_json_records(source: Any) -> list[dict[str, Any]]:
    """Read JSON objects, one a line, in the form that `headwater read --format json` prints. Raises HeadwaterError."""
    from ..runtime.ingest.incoming import numbered_lines  # loads Arrow, which help does without
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
