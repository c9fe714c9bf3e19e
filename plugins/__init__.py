"""Plugin support: the hooks, and the manager that finds plugins and calls them.

A plugin is a module (or any object) with functions marked `@hookimpl`, named as in `hookspecs`.
"""

from __future__ import annotations

from pluggy import HookimplMarker

hookimpl = HookimplMarker("headwater")
"""Marks a plugin's implementation of a hook."""

__all__ = ["hookimpl"]
