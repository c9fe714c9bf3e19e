"""What each part of the metrics costs by itself, in microseconds of a core.

    python -m benchmarks.metrics_parts [--times 2000]

For a task's epoch: a stopwatch in two stages with four operators, the size of a store, and the numbers in the answer.
For an epoch of four tasks: counting it, and its line of JSON. For a scrape: the text of 512 tasks with a store each.
`traced_*`: what `--trace` adds to a task's epoch (a stopwatch that notes 46 parts of two stages, and these in the
answer), and to an epoch of four tasks (its slices, in the file and added up).
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from headwater.runtime.dataclass_json import from_json, to_json
from headwater.runtime.driver.counters import Counters, EpochCounts, EpochTimes, TaskCounts
from headwater.runtime.driver.epoch_reports import EpochTrace, TaskTrace
from headwater.runtime.driver.event_lines import JsonLines
from headwater.runtime.driver.events import EpochCommitted, EpochTraced, StatusTaken
from headwater.runtime.driver.status import ClientStatus, RunStatus, StoreStatus, TaskStatus
from headwater.runtime.engine.stopwatch import Stopwatch
from headwater.runtime.log.commit.records import TaskCommit
from headwater.runtime.observe.metrics import LastStatuses
from headwater.runtime.observe.tracing import Trace
from headwater.runtime.state.lmdb.store import LmdbBackend
from headwater.runtime.state.store import size_of
from headwater.runtime.task_id import TaskId, TaskKey
from headwater.runtime.tasks.measured import Measured, Seconds, StoreSize, TaskOutcome, Volume
from headwater.runtime.tasks.plan import EpochPlan, TaskPlan
from headwater.runtime.timed_parts import now, timed

TASKS = 4


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=2000)
    times = parser.parse_args(arguments).times
    with tempfile.TemporaryDirectory(prefix="headwater-benchmark-") as folder:
        store = LmdbBackend().open(Path(folder))
        store.apply([([b"%d" % n for n in range(20_000)], [b"x" * 20] * 20_000)], 0, 20_000)
        outcomes = [_outcome(number) for number in range(TASKS)]
        unmeasured = replace(outcomes[0], measured=Measured())
        lines = JsonLines(io.StringIO())
        event = EpochCommitted("a", "p", "client-1", 3, 5, 6, 1.0, {})
        answer = _microseconds(lambda: from_json(TaskOutcome, to_json(outcomes[0])), times)
        answer -= _microseconds(lambda: from_json(TaskOutcome, to_json(unmeasured)), times)
        traced = replace(outcomes[0], measured=_traced())
        traced_answer = _microseconds(lambda: from_json(TaskOutcome, to_json(traced)), times)
        traced_answer -= _microseconds(lambda: from_json(TaskOutcome, to_json(outcomes[0])), times)
        trace, epoch = Trace(Path(folder) / "trace.json"), EpochTraced("a", _epoch_trace())
        counters, plan = Counters(), _plan()
        found = {
            "stopwatch": _microseconds(_measured, times),
            "size_of_a_store": _microseconds(lambda: size_of(store), times),
            "answer": max(0.0, answer),
            "counting_an_epoch": _microseconds(lambda: _count(counters, plan, outcomes), times),
            "line_of_json": _microseconds(lambda: lines.on(event), times),
            "scrape_of_512_tasks": _microseconds(_scrape(), 10),
            "traced_stopwatch": _microseconds(_traced, times) - _microseconds(_measured, times),
            "traced_answer": max(0.0, traced_answer),
            "traced_epoch": _microseconds(lambda: trace.note(epoch), min(times, 500)),
        }
    each_task = found["stopwatch"] + found["size_of_a_store"] + found["answer"]
    found["epoch_of_4_tasks"] = TASKS * each_task + found["counting_an_epoch"] + found["line_of_json"]
    each_traced = found["traced_stopwatch"] + found["traced_answer"]
    found["traced_epoch_of_4_tasks"] = TASKS * each_traced + found["traced_epoch"]
    print(json.dumps({"entry": "metrics_parts"} | {name: round(each, 1) for name, each in found.items()}), flush=True)


def _microseconds(work: Callable[[], object], times: int) -> float:
    begun = time.process_time()
    for _ in range(times):
        work()
    return 1e6 * (time.process_time() - begun) / times


def _measured() -> Measured:
    stopwatch = Stopwatch()
    with stopwatch.phase("read"):
        pass
    for _ in range(4):
        with stopwatch.phase("operators"), stopwatch.phase("state"):
            pass
    with stopwatch.phase("write"):
        stopwatch.volume += Volume(1, 2, 3, 4, 5)
        stopwatch.volume += Volume(1, 2, 3, 4, 5)
    return Stopwatch(0.1).added_to(stopwatch.added_to(Measured()))


def _traced() -> Measured:
    """As `_measured`, with the parts that an aggregate behind a step in SQL has."""
    measured = Measured()
    for _ in range(2):
        stopwatch = Stopwatch(0.1, traced=True)
        with stopwatch.tracing():
            for phase in ("read", "write"):
                with stopwatch.phase(phase):
                    for _ in range(4):
                        with timed("part"):
                            pass
            for _ in range(4):
                with stopwatch.phase("operators"), timed("Aggregate topologies/t.yml:7"), stopwatch.phase("state"):
                    pass
        measured = stopwatch.added_to(measured)
    return measured


def _epoch_trace() -> EpochTrace:
    at = now() - 1.0
    tasks = tuple((TaskTrace(TaskId(0, number), 5, _traced().spans),) for number in range(TASKS))
    return EpochTrace("p", "client-1", 1, at, at, now(), now(), tasks)


def _outcome(partition: int) -> TaskOutcome:
    measured = replace(_measured(), stores={"totals": StoreSize(20_000, 1 << 20)})
    return TaskOutcome.done(TaskCommit("p", partition, {"t": {0: 5}}, 1, records=5), measured)


def _plan() -> EpochPlan:
    tasks = tuple(TaskPlan(TaskKey("a", "p", number), 5, 1, {}, ()) for number in range(TASKS))
    return EpochPlan("a", 1, 1, 0, 0, "client-1", "", 1, ("embedded", {}), "", (tasks,))


def _count(counters: Counters, plan: EpochPlan, outcomes: Sequence[TaskOutcome]) -> None:
    counters.epoch_ended("client-1", "p", plan, outcomes, EpochTimes(0.1, 0.1, 1.0))
    counters.committed("client-1", "p", outcomes)


def _scrape() -> Callable[[], object]:
    counts = TaskCounts(1000, 4_000_000, Seconds(1.234567, 2.0, 3.0, 4.0, 5.0), Volume(1, 2, 3, 4, 5), {"s:late": 4})
    stores = (StoreStatus("totals", 1, 2, StoreSize(3, 4)),)
    tasks = tuple(
        TaskStatus(f"{part}_{number}", f"p{part}", number, "active", "running", 0, 5, 1.0, stores, counts)
        for part in range(2)
        for number in range(256)
    )
    client = ClientStatus("client-1", 2, "", tasks, (EpochCounts("p0"), EpochCounts("p1")))
    statuses = LastStatuses()
    statuses.on(StatusTaken("a", RunStatus("a", 1, "host", None, 0, 0, 1000, 1, 1, False, (client,))))
    registry = CollectorRegistry(auto_describe=False)
    registry.register(statuses)
    return lambda: generate_latest(registry)


if __name__ == "__main__":
    main()
