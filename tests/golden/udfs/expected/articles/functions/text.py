"""Texts as they stand in addresses."""

import re


def slug(title):
    """The words of a title, with dashes between them; none of no title."""
    if title is None:
        return None
    return "-".join(re.findall(r"\w+", title.lower()))


def initial(title):
    """The first letter, as it is."""
    return None if title is None else title[:1]
