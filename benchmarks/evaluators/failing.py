"""One row that fails in a batch: what the error says of it, and what it costs to find it by halves."""

from __future__ import annotations

import statistics
import time

import pyarrow as pa

from .candidates import Evaluation
from .speed import IN_THE_PIPE, flights


def with_failing_row() -> tuple[pa.RecordBatch, int]:
    """A batch as in the pipe, and the number of the row in which `x` is no number."""
    batch = flights(IN_THE_PIPE)
    late = [number for number, delay in enumerate(batch["dep_delay"].to_pylist()) if delay is not None and delay > 15]
    row = next(number for number in late[len(late) // 2 :] if batch["carrier"][number].as_py() != "AA")
    texts = batch["x"].to_pylist()
    texts[row] = "twelve"
    return batch.set_column(batch.schema.get_field_index("x"), "x", pa.array(texts)), row


def failing_rows(evaluation: Evaluation, batch: pa.RecordBatch, start: int = 0) -> list[int]:
    """The numbers of the rows that fail: each half that fails is halved again."""
    try:
        evaluation(batch)
    except Exception:
        if batch.num_rows == 1:
            return [start]
        middle = batch.num_rows // 2
        rest = failing_rows(evaluation, batch.slice(middle), start + middle)
        return failing_rows(evaluation, batch.slice(0, middle), start) + rest
    return []


def failing(name: str, evaluation: Evaluation, times: int = 9) -> dict[str, object]:
    """Medians of processor time: of the batch until it fails, and of finding its row."""
    batch, row = with_failing_row()
    message, taken = "", list[float]()
    for _ in range(times):
        begun = time.process_time()
        found = failing_rows(evaluation, batch)
        taken.append(time.process_time() - begun)
        if found != [row]:
            raise SystemExit(f"{name} fails in the rows {found}, not in {row}")
    try:
        evaluation(batch)
    except Exception as error:
        message = str(error)
    return {
        "entry": "evaluators_failing",
        "candidate": name,
        "names_the_row": str(row) in message,
        "error": message.splitlines()[0],
        "finding_cpu_ms": round(1000 * statistics.median(taken), 2),
    }
