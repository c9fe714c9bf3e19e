from __future__ import annotations

import pytest

from headwater.runtime.environment import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("10ms", 10),
        ("5s", 5_000),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("2d", 172_800_000),
        ("0s", 0),
        ("9999999d", 863_999_913_600_000),
    ],
)
def test_duration_is_so_many_milliseconds(text, milliseconds):
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "5", "h", "1 h", "-1h", "1.5h", "1h30m", "1H", "1h\n", "٣s", "9" * 20 + "s", "10000000d", "100000000h"]
)
def test_text_that_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "1ms", "999ms", "1s", "90m", "25h", "7d"])
def test_duration_is_written_in_the_largest_unit_without_a_fraction(text: str) -> None:
    assert duration_text(parse_duration(text)) == text
