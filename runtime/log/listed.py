"""The one name by which other rooms know segments, so that only the log knows in which files records lie."""

from __future__ import annotations

from .segments.segment import Segment

Listed = Segment
"""Records that were written, as a commit lists them. Only the log knows what is in it; others pass it on."""
