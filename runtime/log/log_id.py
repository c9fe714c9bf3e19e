"""The id of a log, as bytes. A log gets it when it is made, and a copy keeps it.

A state directory remembers the log that its stores were made of (see `state.directories.process_file`). So a log that
is missing, not mounted or moved is noticed, and an empty folder in its place is not taken for a new log.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from ..dataclass_json import parsed
from .errors import LogError

NAME = "log.json"


class LogFileError(LogError):
    """The file with the log's id cannot be read: `path`."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} is damaged: it should say which log this is", "put it back from a copy of the log")
        self.path = path


def new_id() -> bytes:
    """The content of the file of a log that is made now."""
    return json.dumps({"id": str(uuid.uuid4())}).encode() + b"\n"


def id_in(content: bytes, path: Path | str) -> str:
    """The id in the content of the file. Raises LogFileError."""
    try:
        return str(uuid.UUID(parsed(content)["id"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogFileError(path) from error
