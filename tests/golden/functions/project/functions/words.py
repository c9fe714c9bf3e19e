"""The words of devices."""

ORDER = ("ok", "low", "bad")


def worse(one, other):
    """The worse of two statuses."""
    return max(one, other, key=ORDER.index)
