"""A week in the life of a log: the commits of two tasks, one epoch after the other, without Spark.

    python -m benchmarks.longevity [--epochs 120960] [--every 2000] [--without-cleaning]

An epoch stands for five seconds; a week has 120,960. In each, every task takes ten records and writes ten to a topic
that is kept for a day, ten to a repartition topic that is consumed in the next epoch, and ten to the changelog of a
store with a thousand keys. Log, committed state, cleaner, folding, purge and removal of files are the real ones, and
called when their time has come by the simulated clock: a round of cleaning every 30 s, files that others have taken the
place of removed after 10 min. Folding and cleaning are done in place instead of in a thread. Prints one JSON object a
line, and last the wall clock's seconds of an epoch's commit: the median of the first and of the last thousand.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

from headwater.runtime.driver.removal import FileRemoval
from headwater.runtime.ir.topology import Store, Subtopology, Topic, Topology
from headwater.runtime.log.cleaning.cleaner import Cleaner, commit_cleaned
from headwater.runtime.log.cleaning.compaction import LIMITS
from headwater.runtime.log.cleaning.deletions import policies_of
from headwater.runtime.log.commit.descriptions import TopologyDescription
from headwater.runtime.log.commit.records import (
    EpochRecord,
    GenerationRecord,
    Purged,
    PurgeRecord,
    RewriteRecord,
    TaskCommit,
)
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.log import Listed, epoch_file_name
from headwater.runtime.log.state import LogState
from headwater.runtime.query.topics import TopicReader
from headwater.runtime.records.schema import CHANGELOG, changelog_topic, topic_schema
from headwater.runtime.task_id import TaskKey

from .log_figures import measured

TASKS = 2
ROWS = 10
KEYS = 1000
EPOCH_SECONDS = 5
CLEAN_EVERY = 6
GRACE_SECONDS = 600
DAY_MS = 24 * 3_600_000

STORE = Store("counts", TASKS, "k string", "n bigint")
APPLICATION = "longevity-counts"
OUTPUT = Topic("output", TASKS, "k bigint", "v bigint", writer=APPLICATION, retention_ms=DAY_MS)
REKEYED = Topic("rekeyed", TASKS, "k bigint", "v bigint", writer=APPLICATION)
PART = Subtopology(
    0, "counts", TASKS, lambda rows, _: rows, (REKEYED,), (OUTPUT, REKEYED), (STORE,), repartition_topics=("rekeyed",)
)
TOPOLOGY = Topology("longevity", "counts", "1", "hash", (PART,))
CHANGES = changelog_topic(APPLICATION, STORE.name)


class Week:
    """The application as its driver sees it. `seconds`: the simulated clock."""

    def __init__(self, root: Path, clean: bool) -> None:
        self.root = root
        self.log = EmbeddedLog(root)
        self.log.check()
        self.state = LogState.load(self.log.commits(APPLICATION))
        self.state.commit(
            GenerationRecord(1, 0, TopologyDescription.from_topology(TOPOLOGY, incarnation="cafecafe" * 4))
        )
        self._cleaner = Cleaner(self.log, policies_of(TOPOLOGY), LIMITS) if clean else None
        self._seconds = 0.0
        self._begun = time.time_ns() // 1_000_000
        self._removal = FileRemoval(self.log, self.state, GRACE_SECONDS, lambda: self._seconds)
        self._rng = np.random.default_rng(0)
        self._schema = topic_schema(OUTPUT)

    def epoch(self, number: int) -> float:
        """One epoch and what is due after it. Returns how long its commit took, in seconds."""
        self._seconds = float(number * EPOCH_SECONDS)
        tasks = [self._task(number, task) for task in range(TASKS)]
        begun = time.perf_counter()
        self.state.commit(EpochRecord(1, number, self._now, tuple(tasks), self.state.incarnation))
        took = time.perf_counter() - begun
        if number % CLEAN_EVERY == 0:
            self._clean(tasks)
        return took

    def _clean(self, tasks: Sequence[TaskCommit]) -> None:
        purged = [Purged(REKEYED.name, task.partition, task.positions[REKEYED.name]) for task in tasks]
        self.state.commit(PurgeRecord(1, self._now, tuple(purged), self.state.incarnation))
        self._removal.now(self.state.unlisted)
        if self._cleaner is not None and commit_cleaned(
            self._cleaner.round(self.state), self.log, self.state, self._rewrite
        ):
            self._removal.later(self.state.replaced)
        self._removal.advance()

    @property
    def _now(self) -> int:
        return self._begun + int(self._seconds * 1000)

    def _rewrite(self, segments: tuple[Listed, ...]) -> None:
        grace = GRACE_SECONDS * 1000
        self.state.commit(RewriteRecord(1, self._now, segments, self.state.incarnation, delay_ms=grace))

    def _task(self, number: int, task: int) -> TaskCommit:
        name = epoch_file_name(
            self.state.incarnation, self.state.generation, number, TaskKey(APPLICATION, PART.name, task), 0
        )
        written: list[Listed] = []
        for topic in (OUTPUT, REKEYED):
            written += self.log.write(APPLICATION, topic.name, name, self._records(), task, task)
        written += self.log.write(APPLICATION, CHANGES, name, self._changes(), task, task)
        positions = {REKEYED.name: {task: self.state.lane_ends(REKEYED.name, task).get(task, 0)}}
        return TaskCommit(PART.name, task, positions, self._now, segments=tuple(written), records=ROWS)

    def _records(self) -> pa.Table:
        keys = self._rng.integers(0, KEYS, ROWS)
        times = np.full(ROWS, self._now)
        return pa.Table.from_arrays(
            [pa.array(keys), pa.array(keys), pa.array(np.ones(ROWS, np.int8)), pa.array(times), pa.array(times)],
            schema=self._schema,
        )

    def _changes(self) -> pa.Table:
        keys = [b"k%d" % key for key in self._rng.integers(0, KEYS, ROWS).tolist()]
        return pa.table([keys, keys, [self._now] * ROWS], schema=CHANGELOG)

    def read(self) -> int:
        """Read what the output topic still has; the number of records."""
        return sum(batch.num_rows for _, _, batch in TopicReader(self.log, APPLICATION, OUTPUT).batches())

    def restore(self) -> int:
        """Read the changelog as a store is restored from it, which a query of a lost store takes; its records."""
        return sum(
            len(found)
            for task in range(TASKS)
            for within in self.state.lane_ranges(CHANGES, task, task)
            for found in self.log.read(within)
        )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=120_960)
    parser.add_argument("--every", type=int, default=2_000, help="epochs between two lines")
    parser.add_argument("--without-cleaning", action="store_true", help="only fold commits")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
        week = Week(Path(folder), not options.without_cleaning)
        commits = []
        for number in range(1, options.epochs + 1):
            commits.append(week.epoch(number))
            if number % options.every == 0:
                figures = measured(week.root, APPLICATION, week.state.number, week.read, week.restore)
                print(json.dumps({"epochs": number, **asdict(figures)}), flush=True)
    some = min(1000, len(commits) // 2)
    print(json.dumps({"first_commits": median(commits[:some]), "last_commits": median(commits[-some:])}))


if __name__ == "__main__":
    main()
