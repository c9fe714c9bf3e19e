"""The version of the package, also written to manifests."""

__version__ = "0.1.0"

MANIFEST_SCHEMA = 1
"""The format version of `target/manifest.json`.

A release that changes the format raises it; newer ones are rejected.
"""
