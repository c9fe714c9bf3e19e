"""Records of many bytes are read, sorted and written in pieces of few, wherever they come from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from headwater.runtime.ingest import append as append_module
from headwater.runtime.ingest import seed_rows, seeds
from headwater.runtime.ingest.append import append
from headwater.runtime.ingest.incoming import Incoming
from headwater.runtime.ingest.record_form import Sieve
from headwater.runtime.ingest.repartition import repartition
from headwater.runtime.ingest.seed_rows import jsonl_rows, parquet_rows, record_rows, yielded_rows
from headwater.runtime.ingest.seeds import SeedSpec, by_time, seed
from headwater.runtime.ir.topology import Topic
from headwater.runtime.log.embedded.log import EmbeddedLog
from headwater.runtime.log.state import LogState
from headwater.runtime.records.record_json import Record

APPLICATION = "demo-seed"
TOPIC = Topic("texts", 2, "k string", "v string")
TEXTS = [letter * 100 for letter in "abcdefghij"]
ROWS = [{"k": str(number), "v": text} for number, text in enumerate(TEXTS)]
RECORDS = [{"key": {"k": row["k"]}, "value": {"v": row["v"]}} for row in ROWS]

Read = Callable[..., list[Record]]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def of_jsonl(path: Path, sieve: Sieve) -> Iterator[Incoming]:
    return jsonl_rows(lines(path, ROWS), TOPIC, 0, sieve)


def of_records(path: Path, sieve: Sieve) -> Iterator[Incoming]:
    return record_rows(lines(path, RECORDS), TOPIC, 0, sieve)


def of_parquet(path: Path, sieve: Sieve) -> Iterator[Incoming]:
    parquet.write_table(pa.Table.from_pylist(ROWS), path, compression="none", use_dictionary=False)
    return parquet_rows(path, TOPIC, 0, sieve)


def of_objects(path: Path, sieve: Sieve) -> Iterator[Incoming]:
    return yielded_rows("rows", iter(ROWS), TOPIC, 0, sieve)


def of_given_records(path: Path, sieve: Sieve) -> Iterator[Incoming]:
    return yielded_rows("rows", iter(RECORDS), TOPIC, 0, sieve)


def of_objects_with_lists(path: Path, sieve: Sieve) -> Iterator[Incoming]:
    topic = Topic("texts", 2, "k string", "v string, more array<string>")
    rows = ({"k": row["k"], "v": row["v"][:1], "more": [row["v"]]} for row in ROWS)
    for piece in yielded_rows("rows", rows, topic, 0, sieve):
        texts = piece.table["value.more"].combine_chunks().flatten()
        yield Incoming(piece.table.set_column(piece.table.column_names.index("value.v"), "value.v", texts))


def of_a_table(path: Path, sieve: Sieve) -> Iterator[Incoming]:
    return yielded_rows("rows", pa.Table.from_pylist(ROWS), TOPIC, 0, sieve)


def of_tables(path: Path, sieve: Sieve) -> Iterator[Incoming]:
    return yielded_rows("rows", iter([pa.Table.from_pylist(ROWS)]), TOPIC, 0, sieve)


@pytest.mark.parametrize(
    "reading",
    [of_jsonl, of_records, of_parquet, of_objects, of_objects_with_lists, of_given_records, of_a_table, of_tables],
)
def test_rows_of_many_bytes_are_converted_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reading: Callable[[Path, Sieve], Iterator[Incoming]]
) -> None:
    monkeypatch.setattr(seed_rows, "PIECE_BYTES", 300)
    pieces = list(reading(tmp_path / "rows", Sieve(TOPIC)))
    assert max(map(len, pieces)) <= 3
    assert [text for piece in pieces for text in piece.table["value.v"].to_pylist()] == TEXTS


def test_rows_that_are_sorted_by_time_come_in_pieces_of_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "WRITE_BYTES", 500)
    topic = Topic("texts", 2, "k string", "v string, at bigint", timestamp="at")
    rows = [{**row, "at": 1000 - number // 2} for number, row in enumerate(ROWS)]
    pieces = list(by_time(topic, yielded_rows("rows", rows, topic, 0, Sieve(topic))))
    assert max(map(len, pieces)) <= 4
    assert [text[0] for piece in pieces for text in piece.table["value.v"].to_pylist()] == [*"ijghefcdab"]


@pytest.fixture
def given(log: EmbeddedLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose topic has a seed of one row, and behind it ten texts, each of its own append."""
    (tmp_path / "texts.csv").write_text("k,v\ns,seed\n")
    seed(log, APPLICATION, TOPIC, SeedSpec("texts.csv"), tmp_path)
    for row in ROWS:
        append(log, APPLICATION, replace(TOPIC), [row])
    monkeypatch.setattr(append_module, "WRITE_BYTES", 500)
    return tmp_path


def files(log: EmbeddedLog) -> list[int]:
    """The records of each file that a topic has now."""
    found: dict[str, int] = {}
    for segment in LogState.load(log.commits(APPLICATION)).segments():
        found[segment.path] = found.get(segment.path, 0) + segment.rows
    return list(found.values())


def test_appended_records_of_many_bytes_are_written_again_in_files_of_few(
    given: Path, log: EmbeddedLog, read: Read
) -> None:
    (given / "texts.csv").write_text("k,v\ns,other\n")
    seed(log, APPLICATION, TOPIC, SeedSpec("texts.csv"), given, full_refresh=True)
    assert sorted(each.value["v"] for each in read(TOPIC)) == [*TEXTS, "other"]
    assert sum(files(log)) == 11
    assert max(files(log)) <= 4


def test_records_of_many_bytes_go_to_other_partitions_in_files_of_few(
    given: Path, log: EmbeddedLog, read: Read
) -> None:
    topic = replace(TOPIC, partitions=3)
    repartition(log, APPLICATION, [topic])
    assert sorted(each.value["v"] for each in read(topic)) == [*TEXTS, "seed"]
    assert sum(files(log)) == 11
    assert max(files(log)) <= 4


@pytest.mark.soak
def test_more_texts_than_an_array_holds_are_sorted_by_time_also_if_large_ones_follow_one_another() -> None:
    topic = Topic("texts", 2, "k string", "v string, at bigint", timestamp="at")
    large = "x" * (100 << 20)

    def rows() -> Iterator[Incoming]:
        for number in range(24):
            columns = {"key.k": ["a"] * 50, "value.v": [large, *["s"] * 49], "value.at": [0] * 50}
            yield Incoming(pa.table({**columns, "_timestamp": [24 - number, *[100 + number] * 49]}))

    times, sizes = [], []
    for piece in by_time(topic, rows()):
        times += piece.table["_timestamp"].to_pylist()
        sizes.append(piece.table.nbytes)
    assert times == sorted(times)
    assert len(times) == 24 * 50
    assert max(sizes) <= seeds.WRITE_BYTES + (1 << 20)
