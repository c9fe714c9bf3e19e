"""The text of `docs/benchmarks.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..measured.growth import TITLES
from ..measurement import Measurement
from ..workloads import ALONE, SMALL, WORKLOADS
from .plots import Plot, short

PICTURES = "pictures"
KAFKA = (
    "Kafka Streams 4.1 counts 143,000 records a second exactly once, and 233,000 at least once, on such a machine: "
    "given figures, which these runs did not measure."
)

_OTHERS: Mapping[str, str] = {
    "idle_epoch": "one record, 255 of 256 tasks idle",
    "first_epoch": "from the start of a process to its first commit",
    "first_epoch_size": "the first epoch by a later one",
    "memory": "a backlog of 32 million records, beside one of 8 million",
    "epoch_bytes": "epochs of large records, by their bytes",
    "epoch_bytes_of_two": "the same of two tasks at once",
    "assignors": "10,000 tasks on 200 clients, from nothing",
}
_GROWTH: Mapping[str, str] = {
    **{f"growth_{what}": title for what, title in TITLES.items()},
    "growth_driver": "tasks of a driver",
}
_WITH_KAFKA: Mapping[str, str] = {
    "kafka_count": "a topic in Kafka to counts and sums by key there, exactly once",
    "kafka_copy": "a topic in Kafka to typed columns in the log",
    "kafka_out": "a topic of the log to Kafka, in transactions",
    "kafka_latency": "from a record in Kafka to its count there, 1,000 records a second",
    "kafka_memory": "64 partitions of Kafka, beside the same without Kafka",
}
WHAT: Mapping[str, str] = {
    **{each.name: each.title for each in (*WORKLOADS.values(), *ALONE.values(), SMALL)},
    **_OTHERS,
}
"""Name -> what is measured: the rows of the table."""


_SIDES: Mapping[str, str] = {"ours": "Headwater", "peer": "Spark", "limit": "bare loop"}


def page(found: Mapping[str, Measurement]) -> str:
    """The whole page. `found`: by name; what is missing is said to be missing."""
    parts = [
        *(_HEAD, *_measured_on(found), _table(WHAT, "Spark", found), _HOW),
        *("What the figures do not say by themselves:", "\n".join([*_notes(WHAT, found), f"- {KAFKA}"])),
        *("## With Kafka", _KAFKA_HOW, _table(_WITH_KAFKA, "Kafka Streams", found), *_notes_of_kafka(found)),
        *("## As it grows", *_growth(found)),
    ]
    return "\n\n".join(parts) + "\n"


def pictures(found: Mapping[str, Measurement]) -> dict[str, str]:
    """The plots by the names of their files."""
    return {f"{name}.svg": _plot(found[name], title).svg() for name, title in _GROWTH.items() if name in found}


def _plot(found: Measurement, title: str) -> Plot:
    up = "records a second" if found.unit == "records/s" else "seconds"
    lines = {
        _SIDES.get(side, side): {float(at): figure for at, figure in line.items()}
        for side, line in found.points.items()
    }
    return Plot(title, title, up, lines)


def _measured_on(found: Mapping[str, Measurement]) -> Iterator[str]:
    machines = sorted({each.machine for each in found.values()})
    if machines:
        yield "Measured on: " + "; ".join(machines) + "."


def _table(names: Mapping[str, str], peer: str, found: Mapping[str, Measurement]) -> str:
    rows = [
        f"| name | what an epoch does | Headwater | {peer} | ratio | wanted | bare loop |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, what in names.items():
        each = found.get(name)
        cells = ["not measured yet", "", "", "", ""] if each is None else _cells(each)
        rows.append(f"| `{name}` | {what} | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cells(found: Measurement) -> list[str]:
    ratio, target = found.ratio, found.target
    bound = "" if target is None else f"{'at most ' if found.at_most else ''}{target:g}"
    return [
        _figure(found, found.ours, "ours"),
        _figure(found, found.peer, "peer"),
        "" if ratio is None else f"**{ratio:g}**" if found.met in (True, None) else f"{ratio:g}, short of it",
        bound,
        "" if found.limit is None else _shown(found.limit, found.unit),
    ]


def _figure(found: Measurement, figure: float | None, side: str) -> str:
    """The median; behind it the least and the most."""
    if figure is None:
        return ""
    runs = found.runs.get(side)
    spread = f" ({_bare(min(runs), found.unit)} to {_bare(max(runs), found.unit)})" if runs else ""
    return _shown(figure, found.unit) + spread


def _shown(figure: float, unit: str) -> str:
    return f"{_bare(figure, unit)} {unit}"


def _bare(figure: float, unit: str) -> str:
    rounded = float(f"{figure:.3g}")
    return short(rounded) if unit == "records/s" else f"{rounded:,g}"


def _notes(names: Iterable[str], found: Mapping[str, Measurement]) -> Iterator[str]:
    """What the ratios do not say by themselves; the same remark once."""
    notes: dict[str, list[str]] = {}
    for name in names:
        if name in found and found[name].note:
            notes.setdefault(found[name].note, []).append(f"`{name}`")
    for note, of in notes.items():
        yield f"- {', '.join(of)}: {note}"


def _notes_of_kafka(found: Mapping[str, Measurement]) -> Iterator[str]:
    if lines := list(_notes(_WITH_KAFKA, found)):
        yield "\n".join(lines)


def _growth(found: Mapping[str, Measurement]) -> Iterator[str]:
    for name, title in _GROWTH.items():
        each = found.get(name)
        if each is None:
            yield f"`{name}` ({title}) is not measured yet."
        else:
            yield f"![{title}]({PICTURES}/{name}.svg)"
            yield each.note
            yield _points(each)


def _points(found: Measurement) -> str:
    sides = list(found.points)
    rows = ["| | " + " | ".join(_SIDES.get(side, side) for side in sides) + " |", "|---:|" + "---:|" * len(sides)]
    for at in found.points[sides[0]]:
        cells = [_shown(found.points[side][at], found.unit) if at in found.points[side] else "" for side in sides]
        rows.append(f"| {int(at):,} | {' | '.join(cells)} |")
    return "\n".join(rows)


_HEAD = """# Benchmarks

<!-- `make bench-report` writes this page from benchmarks/results.jsonl: edit benchmarks/suite/report/page.py. -->

Headwater beside Spark Structured Streaming on the same machine. `make bench` repeats all of it, `make bench
ONLY=keyed_count` one figure, and `make bench-report` writes this page from the figures that `make bench` has kept.
Other measurements are in [measurements](internals/measurements.md)."""

_KAFKA_HOW = """A real broker, Kafka 4.4.0, is on the same machine. Rates are records by seconds of processor time, not
of the clock: medians of three turns, behind three that warm up. So they are kept where other processes work, too, which
makes them up to a fifth lower."""

_HOW = """How it is measured:

- A million records an epoch, 100,000 keys, four partitions, two cores (`local[2]`); `small_epoch` takes 1,000 records,
  `stream_join` takes 50,000 and `foreign_key_join` 200,000; `sliding_count`, `process_rows` and `process_batch` take
  5,000, of 500 keys.
- Both sides run at once, and take turns: one works on an epoch while the other waits. So what else the machine does
  meets both. Twenty epochs warm both up; the figure is the median of the next five, the least and the most beside it.
- Spark has its RocksDB state store with changelog checkpoints, as many shuffle partitions as there are partitions, and
  one Parquet file a partition and batch to read, with the same records in typed columns. Both sides keep state durably
  and write the rows that are updated. Headwater's time is from planning an epoch to its commit, Spark's is
  `triggerExecution` of a batch.
- Headwater computes expressions with `engine: task`, see [who computes
  expressions](language/expressions.md#who-computes-expressions); what it cannot do itself there goes to Spark SQL.
- The bare loop is the same work over Arrow files and LMDB in one process, with nothing around it: no offsets, no
  changelogs, no commits (`python -m benchmarks.bare_loop`). It has one core for most of its work, and we have two.
- Where other processes use more than 0.3 cores meanwhile, there is no ratio, and the figure is not kept."""
