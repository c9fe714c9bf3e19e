"""Stops this process right before the operation that HEADWATER_STRIKE names: see `strikes.py`.

Python imports this when it starts, as its folder is on PYTHONPATH: in a driver, and in the daemon that Spark's Python
workers are forked from. The product runs as it is, and is stopped at the same point on any machine.
"""

import itertools
import json
import os
import re
import signal
import sys


def described(event, arguments):
    """An operation as text: a verb and the path that it makes, opens or removes, or an address. None for another."""
    match event:
        case "socket.bind":
            return f"bind {arguments[1]}"
        case "open":
            path, verb = arguments[0], "create" if int(arguments[2]) & os.O_CREAT else "open"
        case "os.link" | "os.rename":
            path, verb = arguments[1], event.removeprefix("os.")
        case "os.remove" | "os.mkdir":
            path, verb = arguments[0], event.removeprefix("os.")
        case "subprocess.Popen":
            path, verb = arguments[0], "start"
        case _:
            return None
    return f"{verb} {os.fsdecode(path)}" if isinstance(path, str | bytes | os.PathLike) else None


def strike_at(role, place, number, marker, more=0):
    """At the `number`-th operation (from 1) that `place` matches, and at that which comes `more` operations later.

    One process only, whichever comes first.
    """
    markers = {number + more: f"{marker}-again", number: marker}
    pattern, counted = re.compile(place), itertools.count(1)
    if role != ("worker" if any("worker_daemon" in word for word in sys.orig_argv) else "driver"):
        return

    def hook(event, arguments):
        operation = described(event, arguments)
        if operation is None or not pattern.search(operation) or (count := next(counted)) not in markers:
            return
        try:
            handle = os.open(markers[count], os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            return
        os.write(handle, str(os.getpid()).encode())
        os.close(handle)
        os.kill(os.getpid(), signal.SIGSTOP)

    sys.addaudithook(hook)


if "HEADWATER_STRIKE" in os.environ:
    strike_at(**json.loads(os.environ["HEADWATER_STRIKE"]))
