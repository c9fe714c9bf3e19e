"""Names that are others from one commit of an application on: its own, and those of what it reads, writes and keeps.

Records before that commit speak of the old names. A state is renamed as a whole when it comes to the commit
(`state_parts/renamed.py`), so all that work with states know the new names only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from ...records.schema import changelog_topic
from ...topology import DEAD_LETTER_VALUE
from .descriptions import UsedTopic

_INTERNAL = ("-changelog", "-repartition")
"""How the names of topics end that are named after their application."""

DEAD_LETTERS = "_dead_letter"
"""How the names of topics of dead letters end; they begin with the name of their topology."""


@dataclass(frozen=True)
class Renames:
    """Old name -> new name. `application`: both of the application itself, or nothing.

    `topics`: all of them, also changelogs and repartition topics. `subtopologies`, `stores`; `tables`: global ones;
    `steps`: flows and steps, by which records are counted that are dropped.
    """

    application: Mapping[str, str] = field(default_factory=dict)
    subtopologies: Mapping[str, str] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_application(cls, old: str, new: str, topics: Mapping[str, UsedTopic | None]) -> Self:
        """An application gets another name, and so do those of the `topics` that are named after it.

        `topics`: those that it reads or writes, and, with None, that it has written before.
        """
        internal, letters = f"{old}-", f"{old.partition('-')[2]}_"
        renamed = {}
        for each, used in topics.items():
            if each.startswith(internal) and each.endswith(_INTERNAL):
                renamed[each] = f"{new}{each.removeprefix(old)}"
            elif each.startswith(letters) and each.endswith(DEAD_LETTERS) and _holds_letters(used, old):
                renamed[each] = f"{new.partition('-')[2]}_{each.removeprefix(letters)}"
        return cls({old: new}, topics=renamed)

    def __bool__(self) -> bool:
        return any((self.application, self.subtopologies, self.stores, self.topics, self.tables, self.steps))

    @property
    def back(self) -> Renames:
        """The other way round."""
        return Renames(*({new: old for old, new in names.items()} for names in self._all()))

    def then(self, after: Renames) -> Renames:
        """These, and others after them."""
        return Renames(*(_chained(first, second) for first, second in zip(self._all(), after._all(), strict=True)))

    def with_changelogs(self, application: str) -> Renames:
        """With those of the changelogs of renamed stores. `application`: its name by then."""
        both = (
            (changelog_topic(application, old), changelog_topic(application, new)) for old, new in self.stores.items()
        )
        return replace(self, topics={**self.topics, **dict(both)})

    def _all(self) -> tuple[Mapping[str, str], ...]:
        return self.application, self.subtopologies, self.stores, self.topics, self.tables, self.steps


def _holds_letters(used: UsedTopic | None, application: str) -> bool:
    return used is None or (used.writer == application and not used.key and used.value == DEAD_LETTER_VALUE)


def _chained(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    both = {old: second.get(new, new) for old, new in first.items()}
    rest = {old: new for old, new in second.items() if old not in first.values() and old not in first}
    return {old: new for old, new in {**both, **rest}.items() if old != new}
