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


class Profile:
    """All statuses that a device has had, each with its name, and its lowest battery."""

    def initial(self):
        """Nothing is known."""
        return {"statuses": [], "lowest": None}

    def add(self, state, key, value):
        """What is known with one more event."""
        statuses = sorted({*state.statuses, f"{key.device} {value.status}"})
        lowest = value.battery if state.lowest is None else min(state.lowest, value.battery)
        return {"statuses": statuses, "lowest": lowest}
