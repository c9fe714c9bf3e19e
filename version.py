"""The version of Headwater: of the package, and what a manifest says it was made with."""

__version__ = "0.1.0"
