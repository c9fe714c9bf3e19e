"""The files of a round: what is left of several lanes of a topic goes into one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ..log import Log, rewritten_file_name
from ..segments.segment import Segment
from .parts import Part, Says

FILE_BYTES = 32 << 20
"""A file gets no more records once it has so many bytes of them, unpacked."""


@dataclass
class Exchange:
    """Segments of a lane that are to take the place of others, which they span. `failed`: some of it could not be
    made. Mutable: grows while files are written.
    """

    new: list[Segment] = field(default_factory=list)
    replaced: list[Segment] = field(default_factory=list)
    failed: bool = False

    def add(self, new: Segment, replaced: Sequence[Segment]) -> None:
        """One segment for some."""
        self.new.append(new)
        self.replaced += replaced


class Files:
    """Writes parts into files. `written`: the paths of those that are there."""

    def __init__(self, log: Log, application: str, incarnation: str, generation: int) -> None:
        self._log = log
        self._application = application
        self._incarnation = incarnation
        self._generation = generation
        self._waiting: list[tuple[Part, Says, Exchange]] = []
        self._schema: pa.Schema | None = None
        self._size = 0
        self._written: dict[str, None] = {}

    @property
    def written(self) -> tuple[str, ...]:
        """The files, in their order."""
        return tuple(self._written)

    def add(self, part: Part, says: Says, into: Exchange) -> None:
        """Have a part written into some file. Its segment is added to `into` then, at the latest with `flush`.

        Raises OSError, MachineError.
        """
        if self._waiting and not self._fits(part):
            self.flush()
        self._waiting.append((part, says, into))
        self._schema = self._schema or part.schema
        self._size += part.size
        if self._size >= FILE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits. Raises OSError, MachineError."""
        if not self._waiting:
            return
        waiting, self._waiting, self._schema, self._size = self._waiting, [], None, 0
        topic = waiting[0][0].replaced[0].topic
        name = rewritten_file_name(self._incarnation, self._generation, uuid.uuid4().hex)
        rewritten = [part.rewritten for part, _, _ in waiting]
        try:
            segments = self._log.write_rewritten(self._application, topic, name, rewritten)
        except BaseException:
            for _, _, into in waiting:
                into.failed = True
            raise
        for segment, (part, says, into) in zip(segments, waiting, strict=True):
            epochs = sum(each.epochs for each in part.replaced)
            into.add(replace(says.of(segment), epochs=epochs), part.replaced)
            if segment.path:
                self._written[segment.path] = None

    def give_up(self, exchange: Exchange) -> None:
        """Write nothing more of an exchange."""
        exchange.failed = True
        self._waiting = [each for each in self._waiting if each[2] is not exchange]
        self._size = sum(part.size for part, _, _ in self._waiting)
        self._schema = next((part.schema for part, _, _ in self._waiting if part.schema is not None), None)

    def remove(self) -> None:
        """Remove what was written, as nothing will list it."""
        for path in self._written:
            self._log.remove(path)

    def _fits(self, part: Part) -> bool:
        """Whether a part can go into the file of those that wait: it is of their topic and has their columns."""
        same = self._waiting[0][0].replaced[0].topic == part.replaced[0].topic
        return same and (None in (schema := part.schema, self._schema) or schema == self._schema)
