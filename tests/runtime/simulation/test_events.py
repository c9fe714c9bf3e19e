from __future__ import annotations

import pytest

from headwater.runtime.simulation.fleet import RESTART_MS, Event, EventError, parse_events
from headwater.runtime.simulation.model import Rate, duration_ms, shown_duration, shown_size, size_bytes


def test_events_are_read_in_their_order() -> None:
    assert parse_events(
        "kill c2 c3;  add 3 ; add 1 r2; kill rack r1\n restart c1; restart c1 c4 2m; roll; roll 10s;"
    ) == (
        Event("kill", "kill c2 c3", ("c2", "c3")),
        Event("add", "add 3", count=3),
        Event("add", "add 1 r2", count=1, rack="r2"),
        Event("kill", "kill rack r1", rack="r1"),
        Event("restart", "restart c1", ("c1",), away_ms=RESTART_MS),
        Event("restart", "restart c1 c4 2m", ("c1", "c4"), away_ms=120_000),
        Event("roll", "roll"),
        Event("roll", "roll 10s", away_ms=10_000),
    )


def test_no_text_is_no_event() -> None:
    assert parse_events(" ; ;\n") == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kil c2", "there is no event 'kil' (did you mean 'kill'?)"),
        ("explode", "there is no event 'explode' (events: kill NAME"),
        ("kill", "the form is kill NAME..., or kill rack RACK"),
        ("add", "the form is add NUMBER [RACK]"),
        ("add three", "the form is add NUMBER [RACK]"),
        ("add -1", "the form is add NUMBER [RACK]"),
        ("add 0", "add from 1 to 1,000 clients"),
        ("add 999999999", "add from 1 to 1,000 clients"),
        ("add 1 r1 r2", "the form is add NUMBER [RACK]"),
        ("restart 10s", "the form is restart NAME... [DURATION]"),
        ("roll c1", "the form is roll [DURATION]"),
        ("KILL c2", "there is no event 'KILL' (did you mean 'kill'?)"),
        ("kill rack", "the form is kill NAME..., or kill rack RACK"),
        ("kill rack r1 r2", "the form is kill NAME..., or kill rack RACK"),
        ("restart c1 9999999999999d", "is not a duration"),
        ("roll 366d", "more than a year"),
    ],
)
def test_event_that_cannot_be_read_says_how_it_is_written(text: str, problem: str) -> None:
    with pytest.raises(EventError) as refused:
        parse_events(f"add 1; {text}")

    assert refused.value.event == text
    assert problem in str(refused.value)


@pytest.mark.parametrize(("text", "ms"), [("10ms", 10), ("1.5s", 1500), ("10m", 600_000), ("1h", 3_600_000)])
def test_duration_is_read(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "size"), [("7", 7), ("20kB", 20_000), ("1.5GB", 1_500_000_000), ("64 MB", 64_000_000)]
)
def test_size_is_read(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "x", "5 parsecs", "-1s", "1e3s", "１s", "5"])
def test_what_is_no_duration_is_refused_with_the_units_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration .*; units: ms, s, m, h, d"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("text", "rate", "seconds"),
    [
        ("100000", Rate(records=100_000), 10),
        ("100000/s", Rate(records=100_000), 10),
        ("20MB", Rate(bytes=20_000_000), 5),
        ("20MB/s", Rate(bytes=20_000_000), 5),
    ],
)
def test_rate_is_of_records_or_of_bytes(text: str, rate: Rate, seconds: float) -> None:
    assert Rate.parse(text) == rate
    assert rate.seconds(records=1_000_000, record_bytes=100) == seconds


@pytest.mark.parametrize("text", ["0", "0MB", "", "fast", "/s"])
def test_rate_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"never end|is not a rate"):
        Rate.parse(text)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 s"),
        (12_500, "12.5 s"),
        (59_990, "60 s"),
        (60_000, "1 min"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
    ],
)
def test_duration_is_shown(ms: float, text: str) -> None:
    assert shown_duration(ms) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_536_000, "1.54 MB"), (4e8, "400 MB"), (5e15, "5,000 TB")]
)
def test_size_is_shown(size: float, text: str) -> None:
    assert shown_size(size) == text
