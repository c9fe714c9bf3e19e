"""Which errors of a run are for the user, and which are bugs of Headwater."""

from __future__ import annotations

from ....errors import HeadwaterError, MachineError
from ..cluster import Cluster


def user_error(error: Exception, cluster: Cluster | None = None) -> HeadwaterError | None:
    """An error of the driver in a form that a user can act on: Headwater's own, of a cluster that is gone, or the
    machine's.

    None for any other error, which is a bug in Headwater and keeps its traceback.
    """
    if isinstance(error, HeadwaterError):
        return error
    if cluster is not None and (ended := cluster.ended(error)) is not None:
        return ended
    return MachineError.of(error) if isinstance(error, OSError | MemoryError) else None
