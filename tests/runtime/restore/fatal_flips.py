"""A bit of an LMDB file that, flipped, kills whoever reads the rows that are in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from headwater.runtime.state.lmdb.store import LmdbStore

PAGE = 4096
LEAF = bytes([2, 0])
FLAGS, FIRST_ROW = slice(10, 12), 17
"""Places in a page's header: what it is, and the higher byte of where its first row begins."""


def make_fatal(store: Path) -> None:
    """Flip a bit in the header of a page of rows: one of them is then far outside. Nobody has the store open."""
    subprocess.run([sys.executable, __file__, store], check=True)


def _flips(content: bytes) -> Iterator[bytes]:
    """One for each page that may hold rows, not all of which are still in use."""
    for page in range(2 * PAGE, len(content), PAGE):
        if content[page : page + PAGE][FLAGS] == LEAF:
            flipped = bytearray(content)
            flipped[page + FIRST_ROW] ^= 0x80
            yield bytes(flipped)


def _ends(store: Path, *, rows: bool) -> int:
    """How a process ends that opens the store, and reads its rows."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        try:
            opened = LmdbStore(store)
            _ = opened.position
            for _ in opened.range(None, None) if rows else ():
                pass
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def main(store: Path) -> None:
    """Try one flip after the other, and leave the first that kills."""
    content = (store / "data.mdb").read_bytes()
    for flipped in _flips(content):
        (store / "data.mdb").write_bytes(flipped)
        dies = os.WIFSIGNALED(_ends(store, rows=True)) and not os.WIFSIGNALED(_ends(store, rows=False))
        (store / "damaged").unlink(missing_ok=True)
        if dies:
            return
    raise SystemExit("no flip kills")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
