"""Says of which records an error of a segment file is: the file's name does not tell a user what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....errors import MachineError
from ..errors import RangeMissingError, RecordsPlace, RecordsTooLargeError, SegmentError, UnreadableFileError
from ..ranges import LogRange


@contextmanager
def records_named(within: LogRange, start: int, end: int, size: int | None = None) -> Iterator[None]:
    """Have an error that is raised while records of a range are read name them: those between these positions.

    Where the file is missing, these and all that follow in the range. `size`: the bytes that they take in the log.
    """
    try:
        yield
    except SegmentError as error:
        error.tell(_place(within, start, within.end if isinstance(error, RangeMissingError) else end))
        raise
    except MachineError as error:
        raise UnreadableFileError(_place(within, start, end), error) from error
    except MemoryError as error:
        raise RecordsTooLargeError([_place(within, start, end)], size, error) from error


def _place(within: LogRange, start: int, end: int) -> RecordsPlace:
    """Offsets grow as positions do, or by more. So in a range with gaps these are bounds, else they are exact."""
    first = within.start_offset + start - within.start
    return RecordsPlace(within.topic, within.partition, first, within.end_offset - (within.end - end))
