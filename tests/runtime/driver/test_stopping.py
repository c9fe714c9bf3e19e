"""What Ctrl-C and SIGTERM do to this process while a run goes on."""

from __future__ import annotations

import signal
import subprocess
import sys

from headwater.runtime.driver.stopping import SAME_SECONDS, stopping

TWICE = f"""
import signal
from headwater.runtime.driver.stopping import stopping

times = iter([0.0, {SAME_SECONDS} + 0.1])
with stopping(lambda: next(times)):
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
"""


def test_signal_that_comes_twice_at_once_only_tells_the_run_to_stop() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopping(lambda: 0.0) as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
    assert signal.getsignal(signal.SIGTERM) is before


def test_signal_that_comes_again_later_ends_the_process() -> None:
    assert subprocess.run([sys.executable, "-c", TWICE], check=False).returncode == -signal.SIGTERM
