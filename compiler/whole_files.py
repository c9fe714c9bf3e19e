"""Files that others may read, or write, at the same time: nobody finds one half written."""

from __future__ import annotations

import uuid
from pathlib import Path

from ..private_files import make_folder, write_bytes

PARTIAL = ".*.partial"
"""What files are called while they are written; a process that is killed meanwhile leaves one behind."""


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in its place in one go; of two who write it at the same time, one's is there whole."""
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        write_bytes(partial, content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
