"""The id of a log. A log gets it when it is made, and a copy keeps it.

A state directory remembers the log that its stores were made of (see `state.directories.process_file`). So a log that
is missing, not mounted or moved is noticed, and an empty folder in its place is not taken for a new log.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from pathlib import Path

from ..durable_files import link, sync_directory, write_durably
from ..errors import LogError

NAME = "log.json"


class LogFileError(LogError):
    """The file with the log's id cannot be read: `path`."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged: it should say which log this is", "put it back from a copy of the log")
        self.path = path


def identity_of(root: Path) -> str:
    """The id of the log in a directory. Empty if there is no log, or one of a version without ids.

    Raises LogFileError.
    """
    path = root / NAME
    try:
        content = json.loads(path.read_text("utf-8"))
        return str(uuid.UUID(content["id"]))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogFileError(path) from error


def ensure_identity(root: Path) -> None:
    """Give the log in a directory an id, unless it has one. If two processes do so at once, the first id stays.

    Raises LogFileError.
    """
    if identity_of(root):
        return
    temporary = root / f".{uuid.uuid4().hex}.tmp"
    write_durably(temporary, json.dumps({"id": str(uuid.uuid4())}).encode() + b"\n")
    try:
        with suppress(FileExistsError):
            link(temporary, root / NAME)
    finally:
        temporary.unlink()
    sync_directory(root)
