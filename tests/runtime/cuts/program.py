"""A process that does what may be cut, in processes of its own, which may end at any system call.

It has imported all that is needed, and forks each time: so a run takes a tenth of a second and not a second. What is
done is in a module, the one argument: it has `begin`, `run`, `look` and `restored`. A line of standard input asks for
one of these, a line of standard output says what became of it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from headwater.runtime.driver import stopping as purging
from headwater.runtime.driver import upkeep as cleaning
from headwater.runtime.log.cleaning.compaction import Limits
from headwater.runtime.log.state_parts import folded as folding
from headwater.tests.runtime.cuts.system_calls import Calls, Cut, watch


def hurry() -> None:
    """Have what happens now and then happen all the time: purges, merges, foldings."""
    purging.PURGE_SECONDS = 0.0
    cleaning.LIMITS = Limits(fan_out=2)
    folding.SNAPSHOT_EVERY = 4


def in_a_process(work: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    """What `work` returns in a process of its own; `{"killed": true}` if that was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.register(signal.SIGUSR1)
        os.close(reading)
        try:
            answer = json.dumps({**(work() or {}), "modules": [*sys.modules]})
        except BaseException:
            answer = json.dumps({"raised": traceback.format_exc()})
        with os.fdopen(writing, "w") as pipe:
            pipe.write(answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"killed": True}
    found: dict[str, Any] = json.loads(answer)
    for name in found.pop("modules", ()):
        if name not in sys.modules:
            with suppress(ModuleNotFoundError):  # functions of a project, whose names only their loader knows
                import_module(name)  # so that no later run has to
    return found


def watched(run: Callable[[Path], dict[str, Any]], path: Path, cut: Cut | None) -> dict[str, Any]:
    """To its end, or to the cut; with the calls that were made."""
    calls = Calls(path, cut)
    watch(calls)
    return {**run(path), "calls": calls.made}


def main(module: str) -> None:
    hurry()
    done = import_module(module)
    for line in sys.stdin:
        asked = json.loads(line)
        path = Path(asked["path"])
        work: Callable[[Path], dict[str, Any] | None] = getattr(done, asked["what"])
        if asked["what"] == "run":
            cut = Cut(*asked["cut"]) if asked["cut"] else None
            answer = in_a_process(lambda path=path, cut=cut, run=done.run: watched(run, path, cut))  # type: ignore[misc]
        else:
            answer = in_a_process(lambda path=path, work=work: work(path))  # type: ignore[misc]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
