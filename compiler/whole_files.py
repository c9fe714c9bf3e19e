"""Writes files atomically: concurrent readers never see a half-written file."""

from __future__ import annotations

import uuid
from pathlib import Path

from ..private_files import make_folder, write_bytes

PARTIAL = ".*.partial"
"""Names of unfinished files. A killed process may leave one behind."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file atomically. Of two concurrent writers one wins, and its file is complete."""
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        write_bytes(partial, content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
