"""A writer that knows applications by their names, and writes at their places."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..log import Writer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from ..listed import Listed


class PlacedWriter:
    """See `Writer`. `kept`: of the log that is placed. `place_of`: the place of an application."""

    def __init__(self, kept: Writer, place_of: Callable[[str], str]) -> None:
        self._kept = kept
        self._place_of = place_of

    def write(
        self,
        application: str,
        topic: str,
        name: str,
        table: pa.Table | pa.RecordBatch,
        partitions: int | npt.NDArray[np.integer],
        lane: int,
    ) -> tuple[Listed, ...]:
        """See `Writer.write`."""
        return self._kept.write(self._place_of(application), topic, name, table, partitions, lane)

    def sync(self) -> None:
        """See `Writer.sync`."""
        self._kept.sync()
