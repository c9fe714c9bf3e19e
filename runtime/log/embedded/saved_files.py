"""Copies whole files out of an embedded log, and notices those that are not as they were saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from ....private_files import opener
from ..errors import SavedFileError
from ..log import SavedFile

_CHUNK = 4 << 20


def summed(path: Path) -> tuple[int, int]:
    """Size and crc32 of a file."""
    size, checksum = 0, 0
    for chunk in _chunks(path):
        size, checksum = size + len(chunk), crc32(chunk, checksum)
    return size, checksum


def copied(saved: SavedFile, source: Path, to: Path) -> None:
    """See `Log.load_file`."""
    size, checksum = 0, 0
    with open(to, "xb", buffering=0, opener=opener) as target:
        chunks = _chunks(source)
        while True:
            try:
                chunk = next(chunks, None)
            except OSError as error:
                raise SavedFileError(saved.path, error.strerror or str(error)) from error
            if chunk is None:
                break
            size, checksum = size + len(chunk), crc32(chunk, checksum)
            while chunk:  # an unbuffered write may take a part only
                chunk = chunk[target.write(chunk) :]
    if size != saved.size:
        raise SavedFileError(saved.path, f"it has {size:,} bytes, and was saved with {saved.size:,}")
    if checksum != saved.checksum:
        raise SavedFileError(saved.path, "its checksum is wrong")


def _chunks(path: Path) -> Iterator[memoryview]:
    """The file's content, each piece until the next is asked for."""
    data = memoryview(bytearray(_CHUNK))
    with open(path, "rb", buffering=0) as file:
        while read := file.readinto(data):
            yield data[:read]
