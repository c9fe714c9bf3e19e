"""Numbers of articles."""

from decimal import Decimal

import pyarrow.compute as pc


def score(words, shares):
    """A point for each hundred words and for each share."""
    return Decimal(words or 0) / 100 + Decimal(str(round(shares or 0.0, 2)))


def tax(amount):
    """A fifth of each amount."""
    return pc.divide(amount, 5.0)
