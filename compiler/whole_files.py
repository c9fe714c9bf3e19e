"""Writes files that others may read or write at the same time. Nobody sees a half-written file."""

from __future__ import annotations

import uuid
from pathlib import Path

from ..private_files import make_folder, write_bytes

PARTIAL = ".*.partial"
"""Names of files that are being written. A process that is killed meanwhile leaves one behind."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file in one step. Of two concurrent writers one wins, and its file is complete."""
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        write_bytes(partial, content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
