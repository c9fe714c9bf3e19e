"""What the checksums of stored rows cost: the same store with them and without, in turn, in one process."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from headwater.runtime.state.lmdb import store as stores
from headwater.runtime.state.lmdb.environment import Environment
from headwater.runtime.state.lmdb.store import LmdbStore

ROWS = 100_000
"""As many keys as an epoch of the keyed count and sum has."""

TIMES = 15


def measure() -> dict[str, tuple[float, float]]:
    """Seconds of CPU for all rows, without and with checksums: medians by what is done."""
    numbers = random.Random(1)
    keys = [b"k%07d\0" % numbers.randrange(10_000_000) for _ in range(ROWS)]
    values = [numbers.randbytes(33) for _ in range(ROWS)]
    absent = [b"n%07d\0" % numbers.randrange(10_000_000) for _ in range(ROWS)]
    taken: dict[tuple[str, bool], list[float]] = {}
    with tempfile.TemporaryDirectory() as root:
        for each in range(TIMES):
            for checked in (False, True):
                with _checksums(checked):
                    store = LmdbStore(Path(root) / f"{each}-{checked}")
                    work: dict[str, Callable[[], object]] = {
                        "write new rows": partial(store.apply, [(keys, values)], 0, ROWS),
                        "write again": partial(store.apply, [(keys, values)], ROWS, 2 * ROWS),
                        "look up": partial(store.get_many, keys),
                        "look up what is not there": partial(store.get_many, absent),
                        "read all": partial(_read_all, store),
                    }
                    for name, do in work.items():
                        begun = time.process_time()
                        do()
                        taken.setdefault((name, checked), []).append(time.process_time() - begun)
                    store.close()
    names = dict.fromkeys(name for name, _ in taken)
    return {name: (statistics.median(taken[name, False]), statistics.median(taken[name, True])) for name in names}


def _read_all(store: LmdbStore) -> list[object]:
    return list(store.range(None, None))


@contextmanager
def _checksums(checked: bool) -> Iterator[None]:
    """As the code is, or without what checksums need."""
    if checked:
        yield
        return
    with (
        patch.object(stores, "with_checksums", lambda _, values: values),
        patch.object(stores, "require_absent"),
        patch.object(stores, "require_order"),
        patch.object(Environment, "values", _as_stored),
    ):
        yield


def _as_stored(_: Environment, keys: list[bytes], stored: list[bytes]) -> list[bytes]:
    return stored if keys != [b"position"] else [stored[0][:8]]


def report() -> None:
    """Print a row for each kind of work."""
    for name, (without, checked) in measure().items():
        print(f"{name:28} {without * 1e6 / ROWS:6.2f} us a row, with checksums {checked * 1e6 / ROWS:6.2f}")


if __name__ == "__main__":
    report()
