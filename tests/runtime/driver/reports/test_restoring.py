"""How far stores are that are being restored, as observers are told."""

from __future__ import annotations

import pytest

from headwater.runtime.driver.client_events import ClientLost, StoreDamaged, StoreRestored, StoreRestoring, TasksPlaced
from headwater.runtime.driver.event_lines import RESTORING_SECONDS, Lines
from headwater.runtime.driver.events import Event
from headwater.runtime.driver.restoring import Restoring, pace, span


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def at(position: int, end: int = 1000, partition: int = 0, client: str = "client-1") -> StoreRestoring:
    return StoreRestoring("shop-sales", client, "totals", partition, position, end)


def test_rate_and_time_left_come_from_what_was_seen() -> None:
    clock = Clock()
    restoring = Restoring(clock)
    restoring.on(at(200))
    restoring.on(at(0, 500, partition=1, client="client-2"))
    assert restoring.summary() == "restoring 2 stores: 200 of 1,500 records"
    clock.now += 10
    restoring.on(at(500))
    restoring.on(at(200, 500, partition=1, client="client-2"))

    assert restoring.summary() == "restoring 2 stores: 700 of 1,500 records, 50/s, 16 s left"
    assert [each.partition for each in restoring.stores] == [0, 1], "the one with the most to do first"
    assert restoring.short() == "restoring 2 stores: 46 %"
    assert pace(restoring.stores[0]) == ", 30/s, 17 s left"
    clock.now += 60
    assert pace(restoring.stores[0]) == ", 30/s, 17 s left", "between two slices nothing is known"


@pytest.mark.parametrize(
    "event",
    [
        StoreRestored("shop-sales", "client-1", "totals", 0, 800),
        StoreDamaged("shop-sales", "client-1", "totals", 0, "a page is broken"),
        ClientLost("shop-sales", "client-1"),
        TasksPlaced("shop-sales", "sticky", 2, 3, 0),
    ],
)
def test_store_is_forgotten_once_it_is_restored_or_may_be_elsewhere(event: Event) -> None:
    restoring = Restoring()
    restoring.on(at(200))
    restoring.on(event)
    assert (restoring.stores, restoring.summary()) == ([], "")


def test_time_is_said_roughly() -> None:
    assert [span(seconds) for seconds in (-1, 0.4, 119, 120, 7300, 200_000)] == [
        "0 s",
        "0 s",
        "119 s",
        "2 min",
        "2 h",
        "2 days",
    ]


def test_lines_tell_of_a_long_restore_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = Lines(clock)
    for position in range(0, 1_000_000, 100_000):
        lines.on(at(position, 1_000_000))
        clock.now += RESTORING_SECONDS / 4
    lines.on(StoreRestored("shop-sales", "client-1", "totals", 0, 1_000_000))

    told = [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()]
    assert told == [
        "shop-sales: restoring 1 store: 400,000 of 1,000,000 records, 40,000/s, 15 s left",
        "shop-sales: restoring 1 store: 800,000 of 1,000,000 records, 40,000/s, 5 s left",
        "shop-sales: store totals, partition 0, is restored on client-1 by 1,000,000 records",
    ]
