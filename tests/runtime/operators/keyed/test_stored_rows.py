"""Keys of rows in stores."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from headwater.runtime.engine.execution.keyed.stored_rows import store_keys
from headwater.runtime.ir.topology import Store
from headwater.runtime.ir.windows import Window
from headwater.runtime.records.keys import encode_keys
from headwater.runtime.records.window_keys import window_keys


def test_null_key_of_a_windowed_table_has_no_bytes():
    store = Store("s", 1, "k string", "n bigint", type="window", window=Window(1000, 1000, 0))
    times = pa.array([datetime.fromtimestamp(2, UTC), None], pa.timestamp("us", "UTC"))
    plain = pa.array(["a", None])
    expected = window_keys(pa.array([2000]).to_numpy(), encode_keys([plain[:1]])).to_pylist()
    assert store_keys(store, {"k": plain, "window_start": times, "window_end": times}).to_pylist() == [*expected, None]
