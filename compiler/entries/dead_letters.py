"""The names of the topics of dead letters."""

from __future__ import annotations


def dead_letter_name(topology: str, topic: str) -> str:
    """The topic in which a topology keeps the records of a topic that its steps could not process.

    `topic`: of a repartition topic, the name without the application's. Each topology has its own, as a topic has one
    writer, and what one cannot process another one may.
    """
    return f"{topology}_{topic}_dead_letter"
