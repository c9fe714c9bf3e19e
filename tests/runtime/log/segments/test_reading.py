"""Reading of rewritten files, whose batches have gaps between and inside of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.log.errors import RecordsTooLargeError
from headwater.runtime.log.ranges import Rewritten
from headwater.runtime.log.segments import files as reading
from headwater.runtime.log.segments.files import BATCH_ROWS, POSITION, byte_ranges, fetch
from headwater.runtime.log.segments.partitions import encode_rewritten

ROWS = 3 * BATCH_ROWS + 5


def encoded(records, positions, offsets):
    part = Rewritten(2, 1, 100, 100 + 10 * ROWS, 1000, 1000 + 40 * ROWS, records(ROWS), positions, offsets)
    data, (segment,) = encode_rewritten("p.seg", "t", [part])
    return memoryview(data), segment


@pytest.mark.parametrize("sparse", [True, False])
def test_only_batches_from_the_position_on_are_loaded(records, sparse):
    steps = 1 + np.arange(ROWS) % 9 if sparse else np.ones(ROWS, np.int64)
    positions = 99 + np.cumsum(steps)
    offsets = 1000 + 4 * (positions - 100)
    data, segment = encoded(records, positions, offsets)
    within, loaded = segment.range(), []

    def load(file, batch):
        loaded.append(batch)
        return memoryview(b"".join(data[start : start + length] for start, length in byte_ranges(file, batch)))

    for row in (0, 1, BATCH_ROWS - 1, BATCH_ROWS, 2 * BATCH_ROWS + 7, ROWS - 1):
        start = int(positions[row])
        for at in (start, start - 1 if row and positions[row - 1] < start - 1 else start):
            loaded.clear()
            found = list(fetch(within, at, ["value.v"], load))
            assert np.concatenate([each.positions for each in found]).tolist() == positions[row:].tolist()
            assert np.concatenate([each.offsets for each in found]).tolist() == offsets[row:].tolist()
            assert [v for each in found for v in each.records[0].to_pylist()] == list(range(row, ROWS))
            assert found[-1].end == within.end
            assert len(loaded) - len(found) in (0, 1)  # a batch is loaded whose gap at its end begins there
            assert loaded[-1] == 3
    assert list(fetch(within, within.end, None, load)) == []
    assert bool(segment.firsts) == sparse


def test_want_of_memory_names_the_records_that_were_to_be_read(records, monkeypatch):
    data, segment = encoded(records, np.arange(100, 100 + ROWS), np.arange(1000, 1000 + ROWS))

    def decode(*_):
        raise pa.ArrowMemoryError("malloc of size 99 failed")

    monkeypatch.setattr(reading, "decode_batch", decode)
    size = segment.batches[1].length
    with pytest.raises(RecordsTooLargeError) as raised:
        list(fetch(segment.range(), 100 + BATCH_ROWS, None, lambda *_: data))
    place = f"t, partition 2, offsets {1000 + BATCH_ROWS} to "
    assert raised.value.message.startswith(
        f"there is not enough memory (malloc of size 99 failed) for the records of {place}"
    )
    assert raised.value.message.endswith(f"({size:,} bytes in the log)")
    assert "`max_bytes`" in raised.value.hint


def test_positions_and_offsets_that_follow_one_another_take_no_column(records):
    data, segment = encoded(records, np.arange(100, 100 + ROWS), np.arange(1000, 1000 + ROWS))
    assert (segment.firsts, segment.span, segment.offset_span) == ((), 10 * ROWS, 40 * ROWS)
    assert POSITION.encode() not in bytes(data)
    sparse, _ = encoded(records, 100 + 2 * np.arange(ROWS), 1000 + 2 * np.arange(ROWS))
    assert POSITION.encode() in bytes(sparse)
