"""The file of a log's id in a directory, see `log_id`."""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path

from ....private_files import refuse_dangling
from ..durable_files import link, sync_directory, write_durably
from ..log_id import NAME, id_in, new_id


def identity_of(root: Path) -> str:
    """The id of the log in a directory. Empty if there is no log, or one of a version without ids.

    Raises LogFileError, OSError if the directory is a symbolic link to nothing.
    """
    path = root / NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        refuse_dangling(root)
        return ""
    except NotADirectoryError:
        return ""
    return id_in(content, path)


def ensure_identity(root: Path) -> None:
    """Give the log in a directory an id, unless it has one. If two processes do so at once, the first id stays.

    Raises LogFileError.
    """
    if identity_of(root):
        return
    temporary = root / f".{uuid.uuid4().hex}.tmp"
    write_durably(temporary, new_id())
    try:
        with suppress(FileExistsError):
            link(temporary, root / NAME)
    finally:
        temporary.unlink()
    sync_directory(root)
