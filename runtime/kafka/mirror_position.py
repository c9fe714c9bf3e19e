"""The position of a mirror, as the metadata of committed offsets in Kafka.

A broker keeps less than 4,096 bytes with an offset by default. A position has a number for each lane, so that of many
lanes is compressed and divided: each piece is in a group of its own.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_PIECE_CHARACTERS = 3_900
"""Below what brokers allow for the metadata of an offset by default."""


@dataclass(frozen=True)
class MirrorPosition:
    """How far the records of a result are in Kafka.

    `log`: the id of the log. `result`: the incarnation of the application that writes the result. `positions`: by lane.
    """

    log: str
    result: str
    positions: Mapping[int, int] = field(default_factory=dict)

    def pieces(self) -> list[str]:
        """The position as texts that fit into metadata of offsets. The first one has the number of the others."""
        lanes = [self.positions.get(lane, 0) for lane in range(max(self.positions, default=-1) + 1)]
        plain = json.dumps({"log": self.log, "result": self.result, "positions": lanes}, separators=(",", ":"))
        if len(plain) <= _PIECE_CHARACTERS:
            return [plain]
        text = base64.b85encode(zlib.compress(plain.encode(), 9)).decode()
        pieces = [text[at : at + _PIECE_CHARACTERS] for at in range(0, len(text), _PIECE_CHARACTERS)]
        return [f"{len(pieces)}:{pieces[0]}", *pieces[1:]]

    @staticmethod
    def count(first: str) -> int:
        """The number of pieces, by the first one."""
        return 1 if first.startswith("{") else int(first.partition(":")[0])

    @classmethod
    def of(cls, pieces: Sequence[str]) -> MirrorPosition:
        """The inverse of `pieces`."""
        plain = "".join(pieces)
        if not plain.startswith("{"):
            plain = zlib.decompress(base64.b85decode(plain.partition(":")[2])).decode()
        said = json.loads(plain)
        return cls(said["log"], said["result"], dict(enumerate(said["positions"])))
