"""What Ctrl-C and SIGTERM do to this process while a run goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import traceback
from types import FrameType
from typing import Any

import pytest

from headwater.runtime.driver.stopping import SAME_SECONDS, stopping
from headwater.tests.waiting import wait_until

TWICE = f"""
import signal, threading
from headwater.runtime.driver.stopping import stopping

times = iter([0.0, {SAME_SECONDS} + 0.1])
with stopping(lambda: next(times)):
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    threading.Event().wait()
"""


def test_signal_that_comes_twice_at_once_only_tells_the_run_to_stop() -> None:
    before = signal.getsignal(signal.SIGTERM), wakeup_fd()
    with stopping(lambda: 0.0) as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        stop.wait()
    assert (signal.getsignal(signal.SIGTERM), wakeup_fd()) == before
    assert "signals" not in {thread.name for thread in threading.enumerate()}


def test_signal_that_comes_again_later_ends_the_process() -> None:
    assert subprocess.run([sys.executable, "-c", TWICE], check=False).returncode == -signal.SIGTERM


@pytest.mark.usefixtures("heard_hangups")
def test_closed_terminal_stops_the_run_however_often_it_is_told() -> None:
    times = iter([0.0, SAME_SECONDS + 0.1, SAME_SECONDS + 0.2])
    with stopping(lambda: next(times, SAME_SECONDS + 1)) as stop:
        for _ in range(3):
            signal.raise_signal(signal.SIGHUP)
        stop.wait()


def test_closed_terminal_does_not_stop_a_run_that_ignores_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stopping() as stop:
            signal.raise_signal(signal.SIGHUP)
        assert not stop.is_set()  # all that was told has been heard
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signal_that_another_thread_gets_stops_the_run() -> None:
    """As the kernel gives one to another thread when the main one has not yet woken up after Ctrl-Z and `fg`."""
    with stopping() as stop:

        def hear_and_wait() -> None:
            wait_until(lambda: joins(threading.main_thread()))
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            stop.wait()

        other = threading.Thread(target=hear_and_wait)
        other.start()
        other.join()  # until then this thread runs no handler

        assert stop.is_set()


def test_signal_that_comes_while_the_main_thread_holds_the_lock_of_the_event_stops_the_run() -> None:
    def once_locked(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code is threading.Condition.__enter__.__code__:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    with stopping() as stop:
        sys.setprofile(once_locked)
        stop.wait()

        assert stop.is_set()


def test_other_signals_do_not_stop_the_run() -> None:
    heard = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.set())
    try:
        with stopping() as stop:
            signal.raise_signal(signal.SIGUSR1)
            heard.wait()
        assert not stop.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


def joins(thread: threading.Thread) -> bool:
    """Whether it waits for another thread to end."""
    assert thread.ident is not None
    frames = traceback.walk_stack(sys._current_frames()[thread.ident])
    return any(frame.f_code is threading.Thread.join.__code__ for frame, _ in frames)


def wakeup_fd() -> int:
    """What the interpreter tells of signals, which can only be seen by putting another in its place."""
    found = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(found)
    return found
