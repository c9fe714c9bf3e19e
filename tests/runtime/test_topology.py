"""What generated code declares."""

from __future__ import annotations

from headwater.runtime.ir.topology import Store
from headwater.runtime.ir.windows import Window

HOUR = 3_600_000


def test_windows_are_written_in_the_words_of_the_yaml() -> None:
    assert Window.tumbling("1h", grace="10m") == Window(HOUR, HOUR, HOUR // 6)
    assert Window.hopping("1d", advance="6h", grace="0s") == Window(24 * HOUR, 6 * HOUR, 0)


def test_store_keeps_windows_for_its_retention_or_until_they_are_closed_and_other_rows_for_ever() -> None:
    window = Window.hopping("3h", advance="1h", grace="30m")

    assert Store("s", 1, "k string", "n bigint", "window", window).kept_ms == 3.5 * HOUR
    assert Store("s", 1, "k string", "n bigint", "window", window, retention_ms=12 * HOUR).kept_ms == 12 * HOUR
    assert Store("s", 1, "k string", "n bigint").kept_ms is None
