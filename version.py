"""The version of Headwater: of the package, and in manifests."""

__version__ = "0.1.0"
