"""Points at which a run is stopped, to be killed there or to go on: right before some process touches some file.

A point is reached sooner or later on any machine; nothing of it is a time.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "striking"
"""On PYTHONPATH it makes each Python process of a run look out for its strike."""

COMMITS, SEGMENTS = "/log/commits/shop-spending", "/log/segments/shop-spending"

POINTS = {
    "Spark's JVM is started": ("driver", "start .*spark-submit$"),
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

WITH_SPARK = {
    "Spark has its settings": ("driver", r"remove .*/spark\.properties$"),
    "Spark can take sums of workers": ("driver", r"bind \('localhost', "),
    "the second topology's state directory is locked": ("driver", r"create .*/state/.*-second/\.lock$"),
}
"""Points at which a JVM is there that may be killed alone."""

ONCE = {
    "Spark's JVM is started",
    "the state directory is locked",
    "the process file is put in place",
    "a store is opened by the driver",
    "a store is opened by a worker",
}
"""Points that some run passes only once; a store stays open in the process that has opened it."""


@dataclass(frozen=True)
class Strike:
    """Before a point is passed for the `number`-th time (from 1). `driver`: only the driver is to be killed then."""

    point: str
    number: int = 1
    driver: bool = False

    def told(self, marker: Path) -> str:
        """For HEADWATER_STRIKE. `marker`: the file that is made when the point is reached."""
        role, place = {**POINTS, **WITH_SPARK}[self.point]
        return json.dumps({"role": role, "place": place, "number": self.number, "marker": str(marker)})


def strikes(count: int, seed: int) -> list[Strike]:
    """Points in every part of a run, each as often as any other.

    The first strike comes after some epochs, so that there is something to restore. The others come soon, so that there
    is always something left to do.
    """
    draw = random.Random(seed)
    drawn = [list(POINTS)[number % len(POINTS)] for number in range(count - 1)]
    draw.shuffle(drawn)
    return [
        Strike("a commit gets its name", 5),
        *(
            Strike(
                point,
                1 if point in ONCE else draw.randint(1, 3),
                POINTS[point][0] == "driver" and draw.random() < 0.3,
            )
            for point in drawn
        ),
    ]
