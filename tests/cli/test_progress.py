from __future__ import annotations

import os
import subprocess
import sys

from headwater.cli.printing.progress import MOST_BARS, Progress
from headwater.runtime.driver.client_events import (
    ClientLost,
    ClientRefused,
    StoreDamaged,
    StoreRestored,
    StoreRestoring,
    TasksPlaced,
)
from headwater.runtime.driver.events import ApplicationStarted, EpochCommitted, TopicRepartitioned, Waiting
from headwater.runtime.placing.assigned import Move
from headwater.runtime.task_id import TaskId
from headwater.tests.cli.terminal import on_terminal


def epoch(records: int, lag: int, *, subtopology: str = "late", client: str = "0", dropped: int = 0) -> EpochCommitted:
    return EpochCommitted(
        "flights-delays", subtopology, client, 7, records, lag, 0.5, {"late:null_key": dropped} if dropped else {}
    )


def test_epochs_of_several_clients_are_added_up() -> None:
    progress = Progress()
    progress.on(ApplicationStarted("flights-delays", 3, 8, 0))
    progress.on(epoch(100, 900, client="0"))
    progress.on(epoch(50, 850, client="1", dropped=2))

    (line,) = progress.lines()

    assert (line.records, line.commits, line.dropped) == (150, 2, 2)


def test_lag_is_that_of_all_clients_and_subtopologies_after_their_newest_epochs() -> None:
    progress = Progress()
    progress.on(epoch(100, 950, client="0"))
    progress.on(epoch(100, 900, client="0"))
    progress.on(epoch(50, 850, client="1"))
    progress.on(epoch(10, 40, subtopology="hourly"))

    assert progress.lines()[0].lag == 900 + 850 + 40


def test_lag_of_tasks_that_move_is_that_of_their_new_clients() -> None:
    progress = Progress()
    progress.on(epoch(100, 900, client="0"))
    progress.on(epoch(50, 850, client="1"))
    progress.on(ClientLost("flights-delays", "1"))
    progress.on(TasksPlaced("flights-delays", "sticky", 1, 4, 0))
    progress.on(epoch(100, 1650, client="0"))

    assert progress.lines()[0].lag == 1650


def test_application_that_waits_says_for_whom() -> None:
    progress = Progress()
    progress.on(Waiting("flights-delays", 5, ("flights-fleet",)))

    assert progress.lines()[0].note == "waits for flights-fleet"


def test_external_topics_have_no_row_of_their_own() -> None:
    said: list[str] = []
    progress = Progress(said.append)
    progress.on(TopicRepartitioned("flights-seed", "flights", 10, 2, 4, "a string", "a string", 0.5))

    assert progress.lines() == []
    assert said == ["flights: 10 records put into 4 partitions instead of 2, in 0.5 s"]


def restoring(position: int, partition: int = 0) -> StoreRestoring:
    return StoreRestoring("flights-delays", "client-2", "totals", partition, position, 1_000_000)


def test_stores_with_much_to_do_have_bars_and_the_line_says_how_far_all_are() -> None:
    progress = Progress()
    progress.on(ApplicationStarted("flights-delays", 3, 8, 0))
    for partition in range(MOST_BARS + 2):
        progress.on(restoring(100_000 * partition, partition))
    progress.on(epoch(100, 900))

    (line,) = progress.lines()
    assert line.note == "restoring 10 stores: 45 %"
    assert [(bar.store, bar.partition) for bar in line.bars] == [
        ("totals", partition) for partition in range(MOST_BARS)
    ]
    assert (line.bars[3].client, line.bars[3].position, line.bars[3].end) == ("client-2", 300_000, 1_000_000)
    assert line.more == 2

    for partition in range(MOST_BARS + 2):
        progress.on(StoreRestored("flights-delays", "client-2", "totals", partition, 1))
    assert [(line.note, line.bars, line.more) for line in progress.lines()] == [("running", (), 0)]


def test_rebalances_and_damage_are_said_as_they_happen_but_not_the_first_placing() -> None:
    said: list[str] = []
    progress = Progress(said.append)
    placed = TasksPlaced("flights-delays", "sticky", 1, 4, 0, (Move(TaskId(0, 1), None, "client-1"),))
    progress.on(TasksPlaced("flights-delays", "sticky", 2, 0, 8))
    progress.on(ApplicationStarted("flights-delays", 3, 8, 0))
    progress.on(epoch(100, 900))
    progress.on(ClientLost("flights-delays", "client-2"))
    progress.on(placed)
    progress.on(ClientRefused("flights-delays", "client-3", "no room"))
    progress.on(StoreDamaged("flights-delays", "client-1", "totals", 1, "a page is broken"))

    assert said == [
        "flights-delays: client-2 is gone; its tasks go to other clients",
        "flights-delays: sticky has placed the tasks on 1 client: 4 kept, 1 moved, 0 new\n"
        "    0_1 from a client that is gone to client-1",
        "flights-delays: client-3 cannot join, and gets no tasks: no room",
        "flights-delays: store totals, partition 1, was damaged on client-1 and is wiped: a page is broken",
    ]


SHOWN = """
from headwater.cli.printing.progress import shown
from headwater.runtime.driver.events import ApplicationStarted
from headwater.runtime.driver.client_events import ClientLost, StoreRestoring
with shown() as observer:
    observer.on(ApplicationStarted("flights-delays", 3, 8, 0))
    observer.on(ClientLost("flights-delays", "client-2"))
    observer.on(StoreRestoring("flights-delays", "client-1", "totals", 3, 250_000, 1_000_000))
"""


def test_terminal_has_lines_of_what_happens_above_the_table_and_bars_below() -> None:
    printed = on_terminal([sys.executable, "-c", SHOWN], 120, {"NO_COLOR": "1"})
    last = printed[printed.rindex("application") :].splitlines()
    assert "flights-delays: client-2 is gone; its tasks go to other clients\n" in printed
    assert last[1].split()[-5:] == ["restoring", "1", "store:", "25", "%"]
    assert last[2].split()[:2] == ["totals/3", "client-1"]
    assert "━━━" in last[2]
    assert "250,000 of 1,000,000" in last[2]


ON_A_CLOSED_TERMINAL = """
import os, pty, sys
screen, side = pty.openpty()
sys.stderr = os.fdopen(side, "w")
from headwater.cli.printing.progress import shown
from headwater.runtime.driver.client_events import ClientJoined

with shown() as progress:
    os.close(screen)
    progress.on(ClientJoined("flights-delays", "client-2"))
    print("on it goes")
os.write(1, b"to its end")
"""


def test_run_goes_on_when_its_terminal_is_closed() -> None:
    own = {**os.environ, "TERM": "xterm"}
    command = [sys.executable, "-c", ON_A_CLOSED_TERMINAL]
    assert subprocess.run(command, env=own, stdout=subprocess.PIPE, check=False).stdout == b"to its end"
