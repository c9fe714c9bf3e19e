"""Copies RocksDB databases as a whole, and puts copies in the place of others.

Files of RocksDB never change, so a moment of a database is a folder of links to them, which is made in no time. Out of
that folder they are packed into one file, while the store goes on.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import IO

from ....errors import MachineError
from ....private_files import make_folder, opener, write_text
from ...dataclass_json import parsed
from ..directories.half_made import beside
from ..store import CopyDamagedError
from .database import Settings
from .databases import of_this_process

FORM = "rocksdb"
"""See `CopyingBackend.copy_form`."""

_FACTS = "position.json"


def save_copy(directory: Path, settings: Settings, file: Path) -> int:
    """See `CopyingBackend.save_copy`."""
    directory = directory.resolve()
    folder = beside(directory, "copying")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        position, sequence = of_this_process.write(directory, settings, lambda writer: writer.link(folder))
        try:
            write_text(folder / _FACTS, json.dumps({"position": position, "sequence": sequence}))
            with open(file, "xb", opener=opener) as packed, tarfile.open(fileobj=packed, mode="w") as files:
                for path in sorted(folder.iterdir()):
                    files.add(path, path.name)
        except OSError as error:  # it is about the new file, and not about the store
            raise MachineError.of(error, file) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return position


def load_copy(directory: Path, settings: Settings, position: int, file: Path) -> None:
    """See `CopyingBackend.load_copy`."""
    directory = directory.resolve()
    folder = beside(directory, "loading")
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    try:
        _unpack(file, folder)
        found, sequence = _facts(folder)
        if found != position:
            raise CopyDamagedError(f"it is at position {found:,}, and not at {position:,}")
        if cause := of_this_process.defect(folder, settings, sequence):
            raise CopyDamagedError(cause)
        of_this_process.write(directory, settings, lambda writer: writer.replace(folder, position, sequence))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    file.unlink(missing_ok=True)


def _unpack(file: Path, folder: Path) -> None:
    try:
        with tarfile.open(file, "r:") as files:
            for member in files:
                named = member.isfile() and Path(member.name).name == member.name
                content = files.extractfile(member) if named else None
                if content is None:
                    raise CopyDamagedError(f"it has {member.name!r}, which is no file of RocksDB")
                _write(content, folder / member.name)
    except tarfile.TarError as error:
        raise CopyDamagedError(str(error)) from error
    except OSError as error:
        raise MachineError.of(error, folder) from error


def _write(content: IO[bytes], path: Path) -> None:
    with content, open(path, "xb", opener=opener) as file:
        shutil.copyfileobj(content, file, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


def _facts(folder: Path) -> tuple[int, int]:
    """Position and sequence number of an unpacked copy."""
    try:
        facts = parsed((folder / _FACTS).read_text("utf-8"))
        (folder / _FACTS).unlink()
        return int(facts["position"]), int(facts["sequence"])
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise CopyDamagedError("it does not say where it stands") from error
