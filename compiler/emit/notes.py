"""Comments of generated code: what the YAML says of a flow or table, above the first of its steps."""

from __future__ import annotations

import textwrap

from ..topology.graph import TopologyGraph
from .python import WIDTH


class Notes:
    """The comments of one function: each flow and table that has a description is said once."""

    def __init__(self, graph: TopologyGraph) -> None:
        self._file = graph.file
        self._notes = graph.notes
        self._said: set[str] = set()

    def at(self, place: str, indent: int) -> tuple[str, ...]:
        """The lines of the comment above a step at `file:line`; none where its flow was said before."""
        file, _, line = place.rpartition(":")
        notes = [note for note in self._notes if file == self._file and note.line <= int(line)]
        if not notes or not notes[-1].description.strip() or notes[-1].name in self._said:
            return ()
        self._said.add(notes[-1].name)
        return comment_lines(f"{notes[-1].name}: {notes[-1].description}", indent)


def comment_lines(text: str, indent: int) -> tuple[str, ...]:
    """The lines of a comment."""
    shown = "".join(character if character.isprintable() else " " for character in " ".join(text.split()))
    return tuple(
        f"# {line}" for line in textwrap.wrap(shown, WIDTH - indent - 2, break_long_words=False, break_on_hyphens=False)
    )
