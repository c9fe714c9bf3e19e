"""Candidates for evaluating SQL expressions on Arrow batches in a task, in place of the hop to Spark SQL.

    pip install -e '.[bench]'
    python -m benchmarks.evaluators [--times 15] [--only speed footprint failing semantics]

`speed`: a filter and a projection over a million rows in the batches of the pipe, and over a batch of 1,000 rows and
one of 10, each candidate in turn in one process, with one thread. `footprint`: loading a candidate, and its files.
`failing`: how a row that fails is found. `semantics`: a list of small cases, beside what Spark itself answers: `same`,
`refused` (an error, or no such function), `other` (another value), `silent` (a value where Spark raises an error).
Prints a JSON line for each figure, and tables. A candidate that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import Any

import pyarrow as pa

from .candidates import CANDIDATES, ENGINES, PACKAGES, Engine
from .casts import CASTS
from .failing import failing
from .footprint import footprint
from .numbers import ARITHMETIC, COMPARISONS, DECIMALS, NULLS
from .semantics import Judged, judged
from .speed import measured
from .texts import TEXTS
from .times import ARRAYS, TIMES

PARTS = ("speed", "footprint", "failing", "semantics")
SIZES = {1_000_000: 1, 1_000: 50, 10: 50}
"""Rows -> calls in a turn."""

GROUPS = {
    "arithmetic": ARITHMETIC,
    "comparisons": COMPARISONS,
    "nulls and conditions": NULLS,
    "decimals": DECIMALS,
    "casts": CASTS,
    "texts": TEXTS,
    "dates and times": TIMES,
    "arrays and structs": ARRAYS,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=15)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    options = parser.parse_args(arguments)
    pa.set_cpu_count(1)
    names = [name for name in CANDIDATES if all(find_spec(each.split("-")[0]) for each in PACKAGES[name])]
    flights = {name: CANDIDATES[name]().flights() for name in names}
    if "speed" in options.only:
        for rows, calls in SIZES.items():
            _tell(measured(flights, rows, options.times, calls))
    if "footprint" in options.only:
        _tell(footprint(name) for name in names)
    if "failing" in options.only:
        _tell(failing(name, each) for name, each in flights.items())
    if "semantics" in options.only:
        _compare({name: ENGINES[name]() for name in names if name in ENGINES})


def _compare(engines: Mapping[str, Engine]) -> None:
    """Print each case with the verdicts, and how many of each there are, by group and altogether."""
    from headwater.runtime.cluster.spark.session import start_session

    session = start_session({"master": "local[1]"})
    found = {group: [judged(case, session, engines) for case in cases] for group, cases in GROUPS.items()}
    session.stop()
    names = list(found["casts"][0].found)
    print(_row("case", "Spark's answers", *names))
    for each in chain(*found.values()):
        print(_row(each.case.expression, each.spark, *(_cell(*each.found[name]) for name in names)))
    everything = {**found, "all": list(chain(*found.values()))}
    _tell(
        {"entry": "evaluators_semantics", "group": group} | _counts(each, names) for group, each in everything.items()
    )


def _counts(cases: Sequence[Judged], names: Sequence[str]) -> dict[str, object]:
    return {"cases": len(cases)} | {name: Counter(each.found[name][0].name for each in cases) for name in names}


def _cell(verdict: Any, answers: Sequence[Any]) -> str:
    return verdict.name if not verdict else f"{verdict.name}: {list(answers)}"


def _row(*cells: object) -> str:
    return " | ".join(str(each).replace("\n", "\\n") for each in cells)


def _tell(lines: Iterable[Mapping[str, object]]) -> None:
    for line in lines:
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
