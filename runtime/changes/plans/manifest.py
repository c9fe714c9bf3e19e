"""The manifest of a deployed project: what a plan is made against where the log is not at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ....errors import HeadwaterError
from ....version import MANIFEST_SCHEMA
from ...log.commit.descriptions import TopicDeclaration, TopologyDescription
from ...log.commit.renames import Renames
from ...log.state_parts.renamed import renamed_description
from ...progress.renaming import renames_between
from ...records.types import TypeSyntaxError, parse_columns
from ...topology import Topology
from .json_file import DamagedFileError, fitting, read_object

_THE_FILE = "give the target/manifest.json that `headwater compile` has written for the deployed project"


class ManifestError(HeadwaterError):
    """A file that cannot be compared with: `path`."""

    def __init__(self, path: Path, cause: str, hint: str | None = None) -> None:
        super().__init__(f"{path}: {cause}", hint)
        self.path = path


@dataclass(frozen=True)
class Manifest:
    """What a deployed project is. `topologies`: application -> what it would commit of itself. `renamed`: application
    -> its name when it was deployed, if that was another one.
    """

    path: Path
    project: str
    topologies: Mapping[str, TopologyDescription]
    renamed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """From `target/manifest.json`. Raises ManifestError."""
        try:
            found = read_object(path)
            form = fitting(_Form, found)
            if form.schema not in range(1, MANIFEST_SCHEMA + 1):
                raise ManifestError(
                    path,
                    f"the manifest is of form {form.schema}, this version reads forms up to {MANIFEST_SCHEMA}",
                    f"plan with the version of Headwater that has made it: {form.headwater}",
                )
            written = fitting(_Written, found)
            return cls(path, written.project.name, dict(_described(path, written)))
        except OSError as error:
            raise ManifestError(path, error.strerror or str(error)) from error
        except DamagedFileError as error:
            raise ManifestError(path, f"it is no manifest: {error}", _THE_FILE) from error

    def with_names_of_now(self, former_names: Mapping[str, tuple[str, ...]]) -> Manifest:
        """The same with new names of applications. `former_names`: application -> what it was called."""
        found, renamed = dict(self.topologies), dict[str, str]()
        for new, olds in former_names.items():
            for old in olds:
                if old in found and new not in found:
                    renames = Renames.of_application(old, new, found[old].topics)
                    renamed[new] = old
                    found = {
                        new if name == old else name: renamed_description(each, renames) for name, each in found.items()
                    }
        return replace(self, topologies=found, renamed=renamed)

    def renames_in(self, topology: Topology) -> Renames:
        """What of a topology had another name, and the topology itself if it had."""
        found = renames_between(topology, self.topologies.get(topology.application, TopologyDescription()))
        old = self.renamed.get(topology.application)
        return found if old is None else replace(found, application={old: topology.application})

    def declarations(self) -> dict[str, TopicDeclaration]:
        """Each topic as it is read or written."""
        return {name: topic for each in self.topologies.values() for name, topic in each.topics.items()}


@dataclass(frozen=True)
class _Form:
    """What every version writes."""

    schema: int = 1
    headwater: str = "a newer one"


@dataclass(frozen=True)
class _WrittenProject:
    name: str


@dataclass(frozen=True)
class _WrittenTopology:
    """`committed`: None in a manifest of an earlier version."""

    name: str
    application: str
    committed: TopologyDescription | None = None


@dataclass(frozen=True)
class _Written:
    """What a plan needs of the file."""

    project: _WrittenProject
    topologies: tuple[_WrittenTopology, ...]


def _described(path: Path, written: _Written) -> Iterator[tuple[str, TopologyDescription]]:
    """Each application with what it commits. Raises ManifestError, DamagedFileError."""
    for number, each in enumerate(written.topologies):
        at = f"topologies[{number}]"
        if each.application != f"{written.project.name}-{each.name}":
            raise DamagedFileError(f"{at}.application is not that of topology {each.name}")
        if each.committed is None:
            raise ManifestError(
                path,
                f"it does not say what topology {each.name} commits, as it is of an earlier version of Headwater",
                "compile the deployed project with this version: headwater compile",
            )
        _check_texts(f"{at}.committed", each.committed)
        yield each.application, each.committed


def _check_texts(at: str, committed: TopologyDescription) -> None:
    """Look at the texts that are more than names. Raises DamagedFileError."""
    for name, topic in committed.topics.items():
        _check_columns(f"{at}.topics.{name}", topic.key, topic.value, *topic.earlier)
    for name, store in committed.stores.items():
        _check_columns(f"{at}.stores.{name}", store.key, store.value)
        for text in store.shown:
            if ": " not in text:
                raise DamagedFileError(f"{at}.stores.{name}.shown has {text!r}, which is no aggregate")


def _check_columns(at: str, *lists: str) -> None:
    for text in lists:
        try:
            parse_columns(text)
        except TypeSyntaxError as error:
            raise DamagedFileError(f"{at} has no columns: {error}") from error
