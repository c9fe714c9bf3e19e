"""What is known of a device."""

from .words import worse


def latest(old, new):
    """The later of two events; none of a device that is gone."""
    if new.status == "gone":
        return None
    return new if new.seen >= old.seen else old


def worst(old, new):
    """The worse status, and the lower battery."""
    status = worse(old.status, new.status)
    return {"status": status, "battery": min(old.battery, new.battery), "seen": new.seen}
