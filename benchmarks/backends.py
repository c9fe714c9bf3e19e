"""Store backends beside each other: epochs on stores of 100,000 and a million keys, restores, and bytes on the disk.

    python -m benchmarks.backends [--times 3]

Prints a JSON line for each measurement: medians of so many runs. Times are of CPU of all threads (`cpu`), which says
more on a machine that is not idle, or by the clock. An epoch applies 10,000 changes, as its predecessor
has committed them, and looks 10,000 keys up; `handed_over`: two processes run them by turns, as Spark's workers may.
Restores are `restore_1m` and `restore_hot` of `benchmarks.restore`, with links in the driver.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.runtime.state.processor_state_manager import OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT
from headwater.runtime.state.rocksdb.store import RocksdbBackend
from headwater.runtime.state.store import StateStore, StoreBackend

from .common import medians, print_line
from .restore import ENTRIES, links_of, measured, write_entry

BACKENDS: dict[str, Callable[[], StoreBackend]] = {
    "lmdb": LmdbBackend,
    "rocksdb": RocksdbBackend,
    "rocksdb, zstd": lambda: RocksdbBackend(compression="zstd"),
}
KEYS = (100_000, 1_000_000)
EPOCHS = 30
PER_EPOCH = 10_000
PER_STEP = 100_000


def key(number: int) -> bytes:
    return b"customer-%09d" % number


def value(numbers: random.Random) -> bytes:
    """A timestamp, a count and a sum: of a size and likeness as rows of an aggregation have them."""
    return b"".join(numbers.randrange(most).to_bytes(8, "little") for most in (2**40, 1000, 10**6))


def fill(store: StateStore, keys: int) -> float:
    """Apply a changelog of so many keys, in order; seconds of CPU."""
    numbers = random.Random(1)
    steps = [[key(number) for number in range(start, start + PER_STEP)] for start in range(0, keys, PER_STEP)]
    values = [[value(numbers) for _ in step] for step in steps]
    begun = time.process_time()
    for number, (step, some) in enumerate(zip(steps, values, strict=True)):
        store.apply([(step, some)], number * PER_STEP, (number + 1) * PER_STEP)
        write_down(store)
    store.close()
    return time.process_time() - begun


def epoch(store: StateStore, keys: int, numbers: random.Random) -> float:
    """One epoch; seconds."""
    changed = [key(number) for number in numbers.sample(range(keys), PER_EPOCH)]
    values = [value(numbers) for _ in changed]
    asked = [key(number) for number in numbers.sample(range(keys), PER_EPOCH)]
    begun = time.perf_counter()
    position = store.position
    store.apply([(changed, values)], position, position + PER_EPOCH)
    write_down(store)
    store.get_many(asked)
    return time.perf_counter() - begun


def write_down(store: StateStore) -> None:
    """What `ProcessorStateManager` does when records were applied."""
    unwritten = getattr(store, "unwritten", (0, 0))
    if unwritten[0] > OFFSET_DELTA_THRESHOLD_FOR_CHECKPOINT:
        store.checkpoint()  # type: ignore[attr-defined]


def handed_over(store: StateStore, keys: int) -> list[float]:
    """Seconds of epochs that this process and another one run by turns."""
    asked, answers = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        os.close(asked[1])
        numbers = random.Random(2)
        while os.read(asked[0], 1):
            os.write(answers[1], b"%020.9f" % epoch(store, keys, numbers))
        os._exit(0)
    numbers, taken = random.Random(3), list[float]()
    for _ in range(EPOCHS // 2):
        taken.append(epoch(store, keys, numbers))
        os.write(asked[1], b"!")
        taken.append(float(os.read(answers[0], 20)))
    os.close(asked[1])
    os.waitpid(child, 0)
    return taken


def on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def measure_epochs(name: str, keys: int, root: Path) -> dict[str, float]:
    directory = root / name.replace(", ", "-") / str(keys)
    store = BACKENDS[name]().open(directory)
    filled = fill(store, keys)
    size = on_disk(directory)
    numbers = random.Random(4)
    for _ in range(3):
        epoch(store, keys, numbers)
    cpu = time.process_time()
    own = [epoch(store, keys, numbers) for _ in range(EPOCHS)]
    cpu = time.process_time() - cpu
    by_turns = handed_over(store, keys)
    store.close()
    return {
        "fill_records_per_cpu_second": keys / filled,
        "disk_bytes": size,
        "epoch_cpu_ms": 1000 * cpu / EPOCHS,
        "epoch_ms": 1000 * statistics.median(own),
        "slowest_epoch_ms": 1000 * max(own),
        "handed_over_ms": 1000 * statistics.median(by_turns),
        "disk_bytes_after": on_disk(directory),
    }


def tell(what: dict[str, object], runs: Sequence[dict[str, float]]) -> None:
    print_line(what, {name: round(each, 1) for name, each in medians(runs).items()})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args(arguments)
    for keys in KEYS:
        for name in BACKENDS:
            runs = []
            for _ in range(options.times):
                with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
                    runs.append(measure_epochs(name, keys, Path(folder)))
            tell({"entry": "epochs", "keys": keys, "backend": name}, runs)
    for entry in ("restore_1m", "restore_hot"):
        with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder, links_of("driver") as links:
            write_entry(Path(folder), ENTRIES[entry])
            for name in ("lmdb", "rocksdb"):
                states = [f"state-{name}-{number}" for number in range(options.times)]
                runs = [measured(Path(folder), state, links, name) for state in states]
                rates = [{"records_per_cpu_second": ENTRIES[entry].records / run["cpu_seconds"]} for run in runs]
                size = {"disk_bytes": on_disk(Path(folder) / states[0])}
                found = [one | two | size for one, two in zip(runs, rates, strict=True)]
                tell({"entry": entry, "backend": name}, found)


if __name__ == "__main__":
    main()
