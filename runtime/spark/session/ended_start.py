"""What SIGTERM and SIGHUP do while Spark starts: they end the process, which says so and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def end_start_by_signal(folder: Path, process: subprocess.Popen[bytes]) -> Callable[[], None]:
    """Handle the signals until what is returned is called, on the main thread.

    The JVM is killed, with what it has begun, and then the folder removed, in which it would still write. The process
    ends by the signal. One that somebody handles already, or ignores, as below `nohup`, is left alone.
    """
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    mine = [each for each in _SIGNALS if signal.getsignal(each) == signal.SIG_DFL]
    owner, stderr = os.getpid(), os.dup(2)  # the start's own stderr goes to a file

    def end(number: int, _: FrameType | None) -> None:
        if os.getpid() == owner:  # and no child of this process
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)  # it has a session of its own
            with suppress(ChildProcessError):
                os.waitpid(process.pid, 0)  # `wait` takes a lock, which the interrupted thread may hold
            shutil.rmtree(folder, ignore_errors=True)
            with suppress(OSError):
                os.write(stderr, f"ended by {signal.Signals(number).name} while Spark starts\n".encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        os._exit(128 + number)  # the first process of a container is not ended by it

    for each in mine:
        signal.signal(each, end)

    def over() -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # no other may put the handlers away
        for each in mine:
            if signal.getsignal(each) is end:
                signal.signal(each, signal.SIG_DFL)
        with suppress(OSError):
            os.close(stderr)

    return over
