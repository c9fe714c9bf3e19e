"""The results of parsing and compiling a project, as data to print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import HeadwaterError
from ..runtime.ir.topology import GlobalTable, Store
from .diagnostics import Diagnostic, Severity, did_you_mean
from .resources import Resource

if TYPE_CHECKING:
    from .emit.target import Emitted
    from .language.type_checker import LeftToSpark
    from .topology.graph import TopologyGraph


class InvalidProjectError(HeadwaterError):
    """The compiler found errors. `found`: the result, with all errors and warnings, and the texts of the files."""

    def __init__(self, parsed: Parsed) -> None:
        errors = parsed.errors
        first = errors[0]
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        super().__init__(f"{first.position}: {first.message.rstrip('.')} ({first.code}){more}", first.hint)
        self.found = parsed


class UnknownNameError(HeadwaterError):
    """The project has no such topic, seed or store: `kind`, `name`."""

    exit_code = 2

    def __init__(self, kind: str, name: str, hint: str | None) -> None:
        super().__init__(f"the project has no {kind} {name!r}", hint)
        self.kind = kind
        self.name = name


@dataclass(frozen=True, repr=False)
class Parsed:
    """The result of parsing. `sources`: the text of each file, for showing diagnostics."""

    root: Path
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    profile_name: str
    target_name: str
    resources: tuple[Resource, ...]

    def __repr__(self) -> str:
        errors = sum(item.severity is Severity.ERROR for item in self.diagnostics)
        kinds = Counter(resource.kind for resource in self.resources)
        counts = [(kinds["topic"], "topic", "topics"), (kinds["topology"], "topology", "topologies")]
        counts += [(errors, "error", "errors"), (len(self.diagnostics) - errors, "warning", "warnings")]
        text = ", ".join(f"{number} {one if number == 1 else more}" for number, one, more in counts)
        return f"<{type(self).__name__} {self.root.name}: {text}>"

    @property
    def ok(self) -> bool:
        """Whether there are no errors, only warnings."""
        return not self.errors

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The errors, without warnings."""
        return tuple(item for item in self.diagnostics if item.severity is Severity.ERROR)

    @property
    def target_ok(self) -> bool:
        """Whether the target is valid, so that its log can be read.

        It is valid if headwater.yml, profiles.yml and the options of the command line have no errors. Missing packages
        do not count, because reading may not need them.
        """
        positions = [item.position for item in self.errors if item.code != "HW610"]
        return all(at.in_file and at.file.rpartition(".")[0] not in ("headwater", "profiles") for at in positions)


@dataclass(frozen=True, repr=False)
class Compiled(Parsed):
    """A checked project and its generated code.

    Without errors: topologies in graph order, and the `manifest` of all. `left_to_spark`: the expressions whose types
    only Spark knows.
    """

    graphs: tuple[TopologyGraph, ...] = ()
    emitted: tuple[Emitted, ...] = ()
    manifest: Mapping[str, Any] | None = None
    left_to_spark: tuple[LeftToSpark, ...] = ()


@dataclass(frozen=True)
class OwnedStore:
    """A store with its application and subtopology. For a global table: `table` is set, and `subtopology` is empty."""

    application: str
    subtopology: str
    store: Store
    table: GlobalTable | None = None


def find_store(graphs: Sequence[TopologyGraph], name: str) -> OwnedStore:
    """The store with the name `store` or `topology.store`.

    Raises UnknownNameError, also if several topologies have a store with this name.
    """
    topology, _, bare = name.rpartition(".")
    stores = [
        (graph, OwnedStore(graph.application, part.name, store))
        for graph in graphs
        for part in graph.subtopologies
        for store in part.stores
    ]
    stores += [
        (graph, OwnedStore(graph.application, "", table.store, table))
        for graph in graphs
        for table in graph.global_tables
    ]
    matches = [owned for graph, owned in stores if owned.store.name == bare and topology in ("", graph.name)]
    if not matches:
        hint = did_you_mean(bare, [owned.store.name for _, owned in stores])
        raise UnknownNameError("store", name, hint or "`headwater ls --type store` lists the stores")
    if len({owned.application for owned in matches}) > 1:
        raise UnknownNameError("single store", name, "several topologies have one: write topology.store")
    return matches[0]
