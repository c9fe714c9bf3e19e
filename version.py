"""The version of Headwater: of the package, and in manifests."""

__version__ = "0.1.0"

MANIFEST_SCHEMA = 1
"""The form of `target/manifest.json`. A version that writes another one raises it, and reads no newer one."""
