"""Tenants of the shop."""

from __future__ import annotations


def tenant_of(region: str | None) -> str | None:
    """The tenant that serves a region."""
    return None if region is None else region.partition("-")[0]
