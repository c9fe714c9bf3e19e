"""What a test gives a topology, and what it looks at: plain data, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..ingest.seeds import SeedSpec
from ..topology import Topic
from .rows import Cells, Columns


@dataclass(frozen=True)
class Records:
    """Records of one topic, in record form, which are there at once."""

    topic: Topic
    records: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class SeedRows:
    """The rows of a file of the project, read as a seed of the topic is."""

    topic: Topic
    seed: SeedSpec


@dataclass(frozen=True)
class Advance:
    """The test's time goes on by so many ms. `wall_clock`: it alone, and no stream time."""

    milliseconds: int
    wall_clock: bool = False


Given = Records | SeedRows | Advance


@dataclass(frozen=True)
class ExpectedRows:
    """Rows that a topic or a store has in the end. `columns`: of its rows.

    `last`: only the last record of each key is compared, see `found_rows.last_of_each_key`.
    """

    kind: Literal["topic", "store"]
    name: str
    columns: Columns
    rows: tuple[Cells, ...]
    any_order: bool = False
    contains: bool = False
    last: bool = False


@dataclass(frozen=True)
class ExpectedDrops:
    """How many records were dropped, by reason."""

    kind: ClassVar[str] = "dropped"

    counts: Mapping[str, int]


Expected = ExpectedRows | ExpectedDrops

DROP_REASONS = ("late", "null_key", "null_value")
"""Why steps drop records: what `dropped` may name."""
