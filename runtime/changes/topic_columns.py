"""What becomes of a topic's records when its value columns change: they stay as they are, and are read as new ones."""

from __future__ import annotations

from ..log.commit.descriptions import TopicDeclaration
from ..records.column_changes import ColumnChanges
from ..topology import Topic
from .model import Change, Subject, Verdict, Way
from .ways import UNDO

UNREADABLE = "its records cannot be read with the columns that it has now"
COLUMNS_CHANGED = "its columns changed"
CATCH_UP = Way(
    "undo the change, let the topology catch up (headwater build), and then change it and go on",
    "headwater run --continue",
)


def columns_change(subject: Subject, was: TopicDeclaration, is_: Topic | TopicDeclaration) -> Change | None:
    """The change of a topic's value columns since records were committed; None if there is none.

    Refused without a way out but to undo it: what else there is, the caller knows.
    """
    lines = ColumnChanges.between(was.value, is_.value).lines
    then, now = was.obstacles(is_)
    if "value" in then:
        wrong = ColumnChanges.between(then["value"], now["value"]).lines
        return Change("topic.columns", subject, Verdict.REFUSES, UNREADABLE, wrong, ways=(UNDO,))
    if not lines:
        return None
    lacking = was.lacking(is_)
    said = f"{COLUMNS_CHANGED}; the records so far {_read(lacking)}"
    return Change("topic.columns", subject, Verdict.COMPATIBLE, said, lines)


def _read(lacking: tuple[str, ...]) -> str:
    if not lacking:
        return "are read with those of now"
    return f"have no {' and no '.join(lacking)}: null there"
