"""Steps that make more bytes of an epoch's records than can be held: the epoch is smaller, and no good record fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.benchmarks.suite.sides.large_records import FILES
from headwater.runtime.engine.execution.node import Edges, TaskEpoch
from headwater.runtime.engine.operators.aggregations import Aggregate
from headwater.runtime.engine.operators.topics import Sink, Source
from headwater.runtime.ingest.incoming import Incoming, from_table
from headwater.runtime.ir.topology import Topic, dead_letter_topic
from headwater.tests.conformance.driving import Compiled
from headwater.tests.runtime.local.local_application import APPLICATION, LocalApplication, Part, part
from headwater.tests.runtime.local.summing import FLOW, PARTITIONS, TOTALS, WORDS

AT = "topologies/t.yml:9"
SUMS = Topic("sums", PARTITIONS, "k string", "n bigint, s bigint", writer=APPLICATION)
LETTERS = dead_letter_topic("t_words_dead_letter", WORDS, APPLICATION)
MOST = 10
"""What the numbers `x` of one task's rows may be together."""

ERRORS = {
    "capacity": lambda: pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes, have 2516582400"),
    "concat": lambda: pa.ArrowInvalid("offset overflow while concatenating arrays, consider casting"),
    "take": lambda: pa.ArrowInvalid("Take operation overflowed binary array capacity"),
    "chunks": lambda: TypeError("Cannot convert pyarrow.lib.ChunkedArray to pyarrow.lib.Array"),
}


@dataclass
class Enlarging:
    """An operator whose results are no larger than MOST. `tried`: how many rows it was given each time."""

    error: Callable[[], Exception]
    tried: list[int]
    at: str = AT

    def run(self, edges: Edges, epoch: TaskEpoch) -> None:
        numbers = edges["f"].values["x"].to_pylist()
        if numbers:
            self.tried.append(len(numbers))
        if sum(numbers) > MOST:
            raise self.error()


def enlarged(error: str = "capacity", on_error: str = "fail", tried: list[int] | None = None) -> Part:
    words = replace(WORDS, on_error=on_error)
    kept = LETTERS if on_error == "dead_letter" else None
    nodes = (
        Source(words, "f", dead_letter=kept),
        Enlarging(ERRORS[error], [] if tried is None else tried),
        Aggregate("f", TOTALS),
        Sink("f", SUMS, "each_update"),
    )
    made = part("sums", PARTITIONS, ((nodes, {}, {}),), (TOTALS,))
    letters = {"words": LETTERS} if kept else {}
    return replace(made, subtopology=replace(made.subtopology, sources=(words,), dead_letters=letters))


def fed(path: Path, made: Part, *numbers: int) -> LocalApplication:
    """An application with these numbers in one partition, and small ones in another."""
    app = LocalApplication(path, [made])
    app.append(WORDS, [(("a",), (number,), time) for time, number in enumerate(numbers)])
    app.append(WORDS, [(("b",), (1,), time) for time in range(5)], 1)
    return app


def sums(app: LocalApplication) -> list[tuple[str, int, int]]:
    """The key, count and sum of each update, in the order of each key's updates."""
    return [(row["key.k"], row["value.n"], row["value.s"]) for row in app.read(SUMS)]


def updates(key: str, *numbers: int) -> list[tuple[str, int, int]]:
    return [(key, count, sum(numbers[:count])) for count in range(1, len(numbers) + 1)]


SMALL = [*updates("b", 1, 1, 1, 1, 1)]


@pytest.mark.parametrize("error", ERRORS)
def test_epoch_whose_rows_are_too_large_together_is_taken_in_smaller_ones(tmp_path: Path, error: str) -> None:
    numbers = [3, 3, 3, 9, 1, 8, 4, 4, 2, 10, 7, 5]
    app = fed(tmp_path, enlarged(error), *numbers)
    result = app.run()
    assert sums(app) == [*updates("a", *numbers), *SMALL]
    assert result.records == len(numbers) + 5
    assert app.dropped == {}
    assert app.run().records == 0


def test_record_that_is_too_large_by_itself_is_named_and_those_before_it_are_committed(tmp_path: Path) -> None:
    app = fed(tmp_path, enlarged(), 3, 3, 3, 9, 11, 2)
    result = app.attempt()
    assert result.status == "failed"
    assert f"{AT}: record words[0]@4 cannot be processed: " in (result.error or "")
    assert "array cannot contain more than 2147483646 bytes" in (result.error or "")
    assert sums(app) == [*updates("a", 3, 3, 3, 9), *SMALL]
    again = app.attempt()
    assert (again.status, again.error, again.records) == ("failed", result.error, 0)


@pytest.mark.parametrize("on_error", ["skip", "dead_letter"])
def test_record_that_is_too_large_by_itself_is_left_out_if_that_is_wanted(tmp_path: Path, on_error: str) -> None:
    app = fed(tmp_path, enlarged(on_error=on_error), 3, 30, 3, 9, 11, 12, 2)
    app.run()
    assert sums(app) == [*updates("a", 3, 3, 9, 2), *SMALL]
    if on_error == "skip":
        assert app.dropped == {f"{AT}:skipped": 3}
    else:
        assert [row["value.value"] for row in app.read(LETTERS)] == ['{"x": 30}', '{"x": 11}', '{"x": 12}']


def test_step_in_sql_that_makes_too_much_of_records_has_smaller_epochs(tmp_path: Path) -> None:
    def refused(batches: Any) -> Any:
        for batch in batches:
            if sum(batch.column("x").fill_null(0).to_pylist()) > MOST:
                raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")
            yield batch

    last = (Aggregate("f", TOTALS), Sink("f", SUMS, "each_update"))
    stages = (((Source(WORDS, ("f",)),), {}, {"f": FLOW}), refused, (last, {"f": FLOW}, {}))
    app = fed(tmp_path, part("sums", PARTITIONS, stages, (TOTALS,)), 3, 3, 3, 9, 10, 10)
    app.run()
    assert sums(app) == [*updates("a", 3, 3, 3, 9, 10, 10), *SMALL]


def test_task_goes_on_with_as_many_records_as_it_could_take_and_tries_more_only_now_and_then(tmp_path: Path) -> None:
    tried: list[int] = []
    numbers = [1] * 400
    app = fed(tmp_path, enlarged(tried=tried), *numbers)
    app.run()
    assert sums(app)[:400] == updates("a", *numbers)
    epochs = [count for count in tried if count <= MOST]
    assert 40 <= len(epochs) <= 80
    assert len(tried) - len(epochs) < len(epochs) / 2
    assert len([count for count in tried if count > 20]) <= 6


def test_task_has_large_epochs_again_where_only_some_records_are_large(tmp_path: Path) -> None:
    tried: list[int] = []
    numbers = [*[9] * 8, *[0] * 2000]
    app = fed(tmp_path, enlarged(tried=tried), *numbers)
    app.run()
    assert sums(app)[: len(numbers)] == updates("a", *numbers)
    assert len(tried) < 100


def test_records_that_bytes_bound_are_halved_at_once_however_many_more_there_are(tmp_path: Path) -> None:
    tried: list[int] = []
    app = LocalApplication(tmp_path, [enlarged(tried=tried)])
    app.append(WORDS, [(("a",), (1,), time) for time in range(400)])
    app.attempt(replace(app.settings(), max_bytes=1000))
    assert MOST < tried[0] < 80
    assert tried[:3] == [tried[0], tried[0], tried[0] // 2]
    assert sums(app) == updates("a", *[1] * 400)


@pytest.mark.parametrize("seed", range(3))
def test_results_are_the_same_whatever_ends_epochs_and_runs(tmp_path: Path, seed: int) -> None:
    chances = random.Random(seed)
    numbers = [chances.choice([0, 1, 1, 2, 5, 10]) for _ in range(60)]
    app = fed(tmp_path, enlarged(), *numbers)
    app.run_randomly(seed, moving=True)
    assert sums(app) == [*updates("a", *numbers), *SMALL]


TOPOLOGY = """
topology: case
flows:
  repeated:
    from: texts
    steps:
      - select: {text: "STEP"}
  again:
    from: texts
    steps:
      - select: {text: "STEP"}
  merged:
    from: [repeated, again]
    to: copies
  measured:
    from: repeated
    steps:
      - aggregate: {values: {n: count(*), most: max(length(text))}}
    to: longest
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    ("step", "times"), [("repeat(text, 10)", 10), ("replace(text, 'x', 'xxxxxxxxxx')", 10), ("repeat(text, 5)", 5)]
)
def test_texts_that_a_step_makes_more_than_any_array_holds_are_all_there(tmp_path: Path, step: str, times: int) -> None:
    for name, content in {**FILES, "topologies/case.yml": TOPOLOGY.replace("STEP", step)}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    size = 30 << 20

    def records(topic: Topic) -> Iterator[Incoming]:
        for number in range(10):
            columns = {"id": [str(number)], "k": ["k"], "text": ["x" * size]}
            yield from_table(topic, pa.table(columns), number)

    # Where it is five times, each flow has texts that an array holds, and both together have more.
    with Compiled(tmp_path, "case").driven() as driven:
        driven.topology.take((topic := driven.surface.read["texts"], records(topic)))
        driven.topology.feed([])
        found = sorted((each.key["id"], each.value["n"], each.value["most"]) for each in driven.written("longest"))
    assert found == [(str(number), 1, times * size) for number in range(10)]
