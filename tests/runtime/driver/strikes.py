"""Points at which a run is stopped, to be killed there or to go on: right before some process touches some file.

A point is reached sooner or later on any machine; nothing of it is a time.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import psutil

AGAIN = "-again"

FOLDER = Path(__file__).parent / "striking"
"""On PYTHONPATH it makes each Python process of a run look out for its strike."""

COMMITS, SEGMENTS = "/log/commits/shop-spending", "/log/segments/shop-spending"

POINTS = {
    "the state directory is locked": ("driver", r"create .*/state/.*/\.lock$"),
    "the process file is put in place": ("driver", r"rename .*/\.process\.json$"),
    "a commit is written under another name": ("driver", rf"create .*{COMMITS}/\.[^/]*\.tmp$"),
    "a commit gets its name": ("driver", rf"link .*{COMMITS}/\d+\.json$"),
    "a commit loses its other name": ("driver", rf"remove .*{COMMITS}/\.[^/]*\.tmp$"),
    "the names of commits are brought to the disk": ("driver", f"open .*{COMMITS}$"),
    "a store is opened by the driver": ("driver", r"(mkdir .*/state/.*/\d|open .*/state/.*/data\.mdb)$"),
    "a store is opened by a worker": ("worker", r"(mkdir .*/state/.*/\d|open .*/state/.*/data\.mdb)$"),
    "a segment is read": ("worker", r"open .*\.seg$"),
    "a segment is written": ("worker", rf"create .*{SEGMENTS}/.*\.seg$"),
    "the names of segments are brought to the disk": ("worker", f"open .*{SEGMENTS}/[^/]+$"),
    "a changelog is written": ("worker", rf"create .*{SEGMENTS}/[^/]*-changelog/.*\.seg$"),
}
"""Name -> the role of the process, and the operation (see `striking/sitecustomize.py`)."""

JVM = {"Spark's JVM is started": ("driver", "start .*spark-submit$")}
"""The point at which there is no JVM yet."""

WITH_JVM = {
    "Spark has its settings": ("driver", r"remove .*/spark\.properties$"),
    "Spark can take sums of workers": ("driver", r"bind (\('localhost', |/)"),
    "the second topology's state directory is locked": ("driver", r"create .*/state/.*-second/\.lock$"),
}
"""Points at which a JVM is there that may be killed alone."""

WITH_CLEANER = {
    "a merged segment is written": ("driver", rf"create .*{SEGMENTS}/.*-m-[^/]*\.seg$"),
    "the names of merged segments are brought to the disk": ("driver", f"open .*{SEGMENTS}/[^/]+$"),
    "a segment that was replaced is removed": ("driver", rf"remove .*{SEGMENTS}/.*\.seg$"),
}
"""Points of a round of the cleaner, where the driver writes no segments of its own."""

WITH_SNAPSHOTS = {
    "a snapshot is written": ("worker", r"create .*/log/snapshots/.*\.snap$"),
    "a snapshot that is not listed any more is removed": ("worker", r"remove .*/log/snapshots/.*\.snap$"),
    "a snapshot is copied to the client": ("worker", r"create .*/state/.*/\.\d+_[0-9a-f]+-0/copy$"),
    "a store gives way to a snapshot": ("worker", r"rename .*/state/.*/\.\d+-\d+$"),
    "a snapshot takes the place of a store": ("worker", r"rename .*/state/.*/\d+$"),
}
"""Points of a run whose restore strategy is `snapshot`; from the third on of one that has lost its stores."""

ONCE = {
    "the state directory is locked",
    "the process file is put in place",
    "a store is opened by the driver",
    "a store is opened by a worker",
}
"""Points that some run passes only once; a store stays open in the process that has opened it."""

ALIVE = "a commit gets its name"
"""A point that each run passes that has something to do."""


@dataclass(frozen=True)
class Strike:
    """Before a point is passed for the `number`-th time (from 1). `driver`: only the driver is to be killed then.

    `more`: where it goes on, it is stopped once again, when the point comes for so many times more.
    """

    point: str
    number: int = 1
    driver: bool = False
    more: int = 0

    def told(self, marker: Path, one_process: bool = False) -> str:
        """For HEADWATER_STRIKE. `marker`: the file that is made when the point is reached, see `stands_still`; for the
        second time with `AGAIN` behind its name.

        `one_process`: the driver does the work of all workers.
        """
        role, place = {**POINTS, **JVM, **WITH_JVM, **WITH_CLEANER, **WITH_SNAPSHOTS}[self.point]
        role = "driver" if one_process else role
        told = {"role": role, "place": place, "number": self.number, "more": self.more, "marker": str(marker)}
        return json.dumps(told)


FIRST = Strike(ALIVE, 5)
"""After some epochs, so that there is something to restore.

Others come soon, so that there is always something left to do.
"""

ON_SPARK = (
    FIRST,
    Strike("Spark's JVM is started"),
    Strike("a store is opened by a worker"),
    Strike("a segment is written", 2, driver=True),
    Strike("a changelog is written", 2),
    Strike("a commit loses its other name", 2, driver=True),
)
"""Points in the life of a JVM and its workers."""

IN_ROUNDS = tuple(Strike(point, driver=number % 2 == 1) for number, point in enumerate(WITH_CLEANER))
"""In the middle of rounds of the cleaner."""


def strikes(count: int, seed: int, step: int = 1) -> list[Strike]:
    """Points in every part of a run, each as often as any other, in a process that runs without Spark.

    `step`: 2 for every second one of POINTS.
    """
    draw = random.Random(seed)
    points = list(POINTS)[::step]
    drawn = [points[number % len(points)] for number in range(count - 1)]
    draw.shuffle(drawn)
    return [FIRST, *(Strike(point, 1 if point in ONCE else draw.randint(1, 3)) for point in drawn)]


def stands_still(marker: Path) -> bool:
    """Whether the process that makes the file `marker` has stopped at its point.

    It makes the file and stops then. Told to go on between the two, it would stop behind that, and for good.
    """
    pid = marker.read_text() if marker.exists() else ""
    return bool(pid) and psutil.Process(int(pid)).status() == psutil.STATUS_STOPPED
