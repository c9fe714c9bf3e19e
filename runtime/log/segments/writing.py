"""Writing segments, wherever a log keeps its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..rewritten import Rewritten
from .files import encode_segments
from .rewriting import encode_rewritten
from .segment import Segment, segment_path

Keep = Callable[[str, pa.Buffer], object]
"""Keeps bytes durably under a path of the log. Raises FileExistsError if the path is taken."""


def write_segments(
    keep: Keep,
    application: str,
    topic: str,
    name: str,
    table: pa.Table | pa.RecordBatch,
    partitions: int | npt.NDArray[np.integer],
    lane: int,
) -> tuple[Segment, ...]:
    """See `Log.write`."""
    if not table.num_rows:
        return ()
    path = segment_path(application, topic, name)
    data, segments = encode_segments(path, topic, table, partitions, lane)
    keep(path, data)
    return segments


def write_rewritten(
    keep: Keep, application: str, topic: str, name: str, parts: Sequence[Rewritten]
) -> tuple[Segment, ...]:
    """See `Log.write_rewritten`."""
    path = segment_path(application, topic, name)
    data, segments = encode_rewritten(path, topic, parts)
    if data is not None:
        keep(path, data)
    return segments
