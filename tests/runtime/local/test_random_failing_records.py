"""Random records of which some fail, in random epochs with kills: all else is as in a project without them, and the
dead letters are those records, each once.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ir.topology import Topic, dead_letter_topic
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication, part
from headwater.tests.runtime.local.summing import FLOW, PARTITIONS, TOTALS, WORDS

LETTERS = dead_letter_topic("t_words_dead_letter", WORDS, APPLICATION)
SUMS = Topic("sums", PARTITIONS, "k string", "n bigint, s bigint", writer=APPLICATION)
HUGE = 2**62

RECORDS = st.lists(
    st.tuples(
        st.integers(0, PARTITIONS - 1),
        st.sampled_from("ab"),
        st.sampled_from([1, 2, 3, -1, HUGE]),
        st.integers(-2, 20),
    ),
    max_size=20,
)


def strict(batches):
    """A step in place of SQL: it fails for negative numbers."""
    for batch in batches:
        rows = batch.to_pylist()
        if any(row["_kind"] == 1 and row["x"] < 0 for row in rows):
            raise ValueError("a negative number")
        yield batch


def application(path: Path, policy: str) -> LocalApplication:
    words = replace(WORDS, on_error=policy)
    kept = LETTERS if policy == "dead_letter" else None
    stages = (
        ((Source(words, ("f",), dead_letter=kept),), {}, {"f": FLOW}),
        strict,
        ((Aggregate("f", TOTALS), Sink("f", SUMS, "each_update")), {"f": FLOW}, {}),
    )
    made = part("sums", PARTITIONS, stages, (TOTALS,))
    letters = {} if kept is None else {"words": LETTERS}
    return LocalApplication(
        path, [replace(made, subtopology=replace(made.subtopology, sources=(words,), dead_letters=letters))]
    )


def fed(app: LocalApplication, records) -> LocalApplication:
    for partition in range(PARTITIONS):
        mine = [((key,), (x,), time) for where, key, x, time in records if where == partition]
        if mine:
            app.append(WORDS, mine, partition)
    return app


def results(app: LocalApplication) -> list[str]:
    rows = [{name: value for name, value in row.items() if name != "_order"} for row in app.read(SUMS)]
    return [repr(row) for row in sorted(rows, key=lambda row: (row["partition"], row["lane"]))]


def bad_ones(records) -> tuple[list, list]:
    """Those that fail and those that do not, as one record after the other would find them."""
    good, bad, totals = [], [], {}
    for record in records:
        where, key, x, time = record
        total = totals.get((where, key), 0) + x
        if time < 0 or x < 0 or total >= 2**63:
            bad.append(record)
        else:
            totals[where, key] = total
            good.append(record)
    return good, bad


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@given(records=RECORDS, seed=st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_what_is_left_is_as_in_a_project_without_the_records_that_fail(policy, records, seed) -> None:
    good, bad = bad_ones(ordered(records))
    with tempfile.TemporaryDirectory() as folder:
        app = fed(application(Path(folder) / "all", policy), ordered(records))
        # Where a worker is killed while a record is looked for, none is blamed: the run ends, and the next goes on.
        app.run_randomly(seed, ends=("the worker was killed", "failed: a negative number"))
        without = fed(application(Path(folder) / "good", policy), good)
        without.run()
        assert results(app) == results(without)
        letters = [
            (row["value.partition"], row["value.key"], row["value.value"], row["value.timestamp"].timestamp())
            for row in app.read(LETTERS)
        ]
        wanted = [(p, f'{{"k": "{key}"}}', f'{{"x": {x}}}', time / 1000) for p, key, x, time in bad]
        assert sorted(letters) == (sorted(wanted) if policy == "dead_letter" else [])


def ordered(records):
    """Each partition's records in the order in which its task takes them: as they stand."""
    return sorted(records, key=lambda record: record[0])
