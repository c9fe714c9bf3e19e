"""What partitions cost in which nothing happens: processor time while all are idle, and the way of one record.

    python -m benchmarks.idle_partitions [--partitions 256] [--seconds 20] [--records 5]

Numbers are summed up by key behind a repartition topic, in two subtopologies of so many partitions, with the real loop,
log and stores, in this process without Spark. Every partition has had a record. Then nothing is appended for
`--seconds`, then one record after the other: `record_seconds` is the time from the append until its sum is committed.
Prints a JSON line.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.driver.events import EpochCommitted, Event
from headwater.runtime.driver.runs import run_topologies
from headwater.runtime.engine.building import repartition_topics
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Agg, PluginRef, Settings, Store, Subtopology, Topic, Topology
from headwater.runtime.log.commit.external_records import EXTERNAL_LANE, AppendRecord
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.records.schema import topic_schema
from headwater.runtime.records.types import Kind

APPLICATION = "bench-sums"
SUMS = "sums"


def topology(partitions: int) -> tuple[Topology, Topic]:
    """Two subtopologies, and the topic that feeds them."""
    words = Topic("words", partitions, "k string", "x bigint")
    by_text = Topic("by_text", partitions, "k string", "x bigint", writer=APPLICATION)
    sums = Topic(SUMS, partitions, "k string", "n bigint, s bigint", writer=APPLICATION)
    counted = (Agg("n", "count"), Agg("s", "sum", "x", "bigint"))
    store = Store("totals", partitions, "k string", "n bigint, s bigint", aggregates=counted)
    first = (Source(words, ("f",)), Sink("f", by_text, "repartition"))
    second = (Source(by_text, ("f",)), Aggregate("f", store, at="t.yml:1"), Sink("f", sums, "each_update"))
    parts = (
        _part(0, "first", partitions, first, words, by_text),
        _part(1, "second", partitions, second, by_text, sums, store),
    )
    return Topology("bench", "sums", "1", "hash", parts), words


def _part(
    number: int, name: str, partitions: int, nodes: tuple[Any, ...], source: Topic, sink: Topic, *stores: Store
) -> Subtopology:
    return Subtopology(
        number,
        name,
        partitions,
        lambda rows, engine: engine.process(rows, nodes, {}, {}),
        (source,),
        (sink,),
        stores,
        repartition_topics=tuple(repartition_topics(nodes)),
    )


class Waiting:
    """An observer that tells when the second subtopology has committed so many records."""

    def __init__(self) -> None:
        self._done = threading.Condition()
        self._records = 0

    def on(self, event: Event) -> None:
        """Count them."""
        if isinstance(event, EpochCommitted) and event.subtopology == "second":
            with self._done:
                self._records += event.records
                self._done.notify_all()

    def wait(self, records: int) -> None:
        """Until so many are committed."""
        with self._done:
            self._done.wait_for(lambda: self._records >= records)


def append(log: EmbeddedLog, topic: Topic, partitions: Sequence[int]) -> None:
    """A record in each of some partitions."""
    seeds = LogState.load(log.commits("bench-seed"))
    count, times = len(partitions), pa.array([0] * len(partitions), pa.int64())
    columns = [
        pa.array([f"k{each}" for each in partitions]),
        pa.array([1] * count, pa.int64()),
        pa.array([int(Kind.VALUE)] * count, pa.int8()),
        times,
        times,
    ]
    table = pa.Table.from_arrays(columns, schema=topic_schema(topic))
    numbers = pa.array(partitions).to_numpy()
    seeds.commit(
        AppendRecord(0, log.write("bench-seed", topic.name, f"s-{seeds.number}", table, numbers, EXTERNAL_LANE))
    )


def measured(root: Path, partitions: int, seconds: float, records: int) -> dict[str, float]:
    """The figures."""
    made, words = topology(partitions)
    log = EmbeddedLog(root / "log")
    log.check()
    append(log, words, range(partitions))
    settings = Settings(PluginRef("embedded", {"path": str(root / "log")}), str(root / "state"), epoch_interval_ms=500)
    stop, waiting = threading.Event(), Waiting()
    run = threading.Thread(
        target=run_topologies,
        args=([made], settings, LocalCluster()),
        kwargs={"until_caught_up": False, "observer": waiting, "stop": stop},
    )
    run.start()
    try:
        waiting.wait(partitions)
        time.sleep(1)
        begun, wall = time.process_time(), time.monotonic()
        time.sleep(seconds)
        idle, wall = time.process_time() - begun, time.monotonic() - wall
        took = []
        for number in range(records):
            time.sleep(1)
            begun = time.monotonic()
            append(log, words, [number % partitions])
            waiting.wait(partitions + number + 1)
            took.append(time.monotonic() - begun)
    finally:
        stop.set()
        run.join()
    return {
        "partitions": partitions,
        "idle_cpu_seconds": round(idle, 2),
        "idle_seconds": round(wall, 1),
        "record_seconds": round(statistics.median(took), 3),
        "record_seconds_max": round(max(took), 3),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--records", type=int, default=5)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as root:
        print(json.dumps(measured(Path(root), given.partitions, given.seconds, given.records)), flush=True)


if __name__ == "__main__":
    main()
