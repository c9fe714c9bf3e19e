"""The measurements by name, in the order in which `make bench` takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from .bench import Bench
from .measured.assignors import assignments
from .measured.beside_spark import records_a_second, seconds_an_epoch
from .measured.driver import costs_of_a_driver
from .measured.growth import TITLES, grown, growth
from .measured.idle import idle_epochs
from .measured.kafka import kafka_copy, kafka_count, kafka_memory, kafka_out
from .measured.kafka_latency import kafka_latency
from .measured.large_records import epoch_bytes
from .measured.memory import backlogs
from .measured.starts import first_epochs
from .measurement import Measurement
from .workloads import ALONE, SMALL, WORKLOADS, Workload

FEW = 1000
"""Records of a small epoch."""

Measuring = Callable[[Bench], Iterator[Measurement]]


def _throughput(workload: Workload, bench: Bench) -> Iterator[Measurement]:
    yield records_a_second(bench, workload, workload.sized(bench.size))


def _without_peer(workload: Workload, bench: Bench) -> Iterator[Measurement]:
    yield records_a_second(bench, workload, workload.sized(bench.size), alone=True)


def _growth_of(what: str, bench: Bench) -> Iterator[Measurement]:
    yield grown(what, bench)


def _small_epoch(bench: Bench) -> Iterator[Measurement]:
    yield seconds_an_epoch(bench, SMALL, replace(bench.size, records=FEW))


NAMES: Mapping[str, Measuring] = {
    **{name: partial(_throughput, workload) for name, workload in WORKLOADS.items()},
    **{name: partial(_without_peer, workload) for name, workload in ALONE.items()},
    SMALL.name: _small_epoch,
    "idle_epoch": idle_epochs,
    "first_epoch": first_epochs,
    "assignors": assignments,
    "memory": backlogs,
    "epoch_bytes": epoch_bytes,
    "kafka_count": kafka_count,
    "kafka_copy": kafka_copy,
    "kafka_out": kafka_out,
    "kafka_latency": kafka_latency,
    "kafka_memory": kafka_memory,
    "growth": growth,
}

PARTS: Mapping[str, Measuring] = {
    **{f"growth_{what}": partial(_growth_of, what) for what in TITLES},
    "growth_driver": costs_of_a_driver,
}
"""Parts of `growth`, which takes longest: each by itself, for `ONLY=`."""
