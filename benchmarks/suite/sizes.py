"""How much there is to do: records an epoch, keys, partitions."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True)
class Size:
    """`records`: of an epoch, of all partitions. `segments`: appends among which an epoch's records are divided."""

    records: int = 1_000_000
    keys: int = 100_000
    partitions: int = 4
    segments: int = 1

    @property
    def name(self) -> str:
        """For folders."""
        return f"{self.records}-{self.keys}-{self.partitions}-{self.segments}"

    def to_json(self) -> str:
        """For another process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The size that another process was given."""
        return cls(**json.loads(text))
