"""Texts."""


def part(url, number):
    """A part of an address."""
    return url.split("/")[number]


PARTS = ("host", "path")
