"""A filter and a projection over batches of several sizes, the candidates in turn: processor time and wall time."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from .candidates import Evaluation

IN_THE_PIPE = 32_768
"""Rows of a batch in the pipe between stages."""


def flights(rows: int, seed: int = 1) -> pa.RecordBatch:
    """Random flights: of every three, one is late and passes the filter."""
    numbers = np.random.default_rng(seed)
    carriers, places = np.array(["AA", "UA", "B6", "DL", "EV"]), np.array(["ORD", "ATL", "LAX", "BOS"])
    columns = {
        "dep_delay": pa.array(numbers.normal(12, 40, rows).round(), mask=numbers.random(rows) < 0.02),
        "carrier": pa.array(carriers[numbers.integers(0, 5, rows)]),
        "dest": pa.array(places[numbers.integers(0, 4, rows)], mask=numbers.random(rows) < 0.1),
        "x": pa.array([str(number) for number in numbers.integers(0, 10**9, rows)]),
    }
    return pa.record_batch(columns)


def measured(evaluations: Mapping[str, Evaluation], rows: int, times: int, calls: int) -> Iterator[dict[str, object]]:
    """Medians of so many turns for each candidate, of so many calls: time of all its threads, by the clock, the ratio.

    A turn has several calls where they are short: threads of the candidate before may still be at work in the first.
    """
    whole = flights(rows)
    batches = [whole.slice(start, IN_THE_PIPE) for start in range(0, rows, IN_THE_PIPE)]
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in evaluations}
    for each in evaluations.values():
        _turn(each, batches, 1)
    for _ in range(times):
        for name, each in evaluations.items():
            taken[name].append(_turn(each, batches, calls))
    first = _median(next(iter(taken.values())), 0)
    for name, both in taken.items():
        cpu = _median(both, 0)
        yield {
            "entry": "evaluators",
            "candidate": name,
            "rows": rows,
            "cpu_ms": round(1000 * cpu, 3),
            "wall_ms": round(1000 * _median(both, 1), 3),
            "ratio": round(cpu / first, 2),
            "load": round(os.getloadavg()[0], 1),
        }


def _turn(evaluation: Evaluation, batches: Sequence[pa.RecordBatch], calls: int) -> tuple[float, float]:
    """Seconds of one call: of the processor, by the clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(calls):
        for batch in batches:
            evaluation(batch)
    return (time.process_time() - cpu) / calls, (time.perf_counter() - wall) / calls


def _median(taken: Sequence[tuple[float, float]], which: int) -> float:
    return statistics.median(each[which] for each in taken)
