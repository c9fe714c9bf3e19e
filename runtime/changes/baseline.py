"""What a plan compares with: manifests, former names, committed seeds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import HeadwaterError
from ...suggestions import guess
from ...version import MANIFEST_SCHEMA
from ..dataclass_json import DamagedFileError, fitting
from ..ingest.seeds import SeedSpec, other_records, seed_digest
from ..ir.topology import Topic, Topology
from ..log.commit.descriptions import ExternalTopic, TopicDeclaration, TopologyDescription
from ..log.commit.records import Renames
from ..log.declared_topics import check_readable
from ..log.errors import TopicChangedError
from ..log.log import Log
from ..log.state import LogState
from ..log.state_parts.renamed import renamed_description
from ..progress.committer import renames_between
from ..records.types import TypeSyntaxError, parse_columns
from .model import UNDO, Change, Subject, SubjectKind, Verdict, Way, ways_to_declare
from .plan import read_object

_THE_FILE = "give the target/manifest.json that `headwater compile` has written for the deployed project"


class ManifestError(HeadwaterError):
    """A manifest that cannot be compared."""

    def __init__(self, path: Path, cause: str, hint: str | None = None) -> None:
        super().__init__(f"{path}: {cause}", hint)


@dataclass(frozen=True)
class Manifest:
    """The manifest of a deployed project, for plans without its log. `topologies`: application -> its description.
    `renamed`: application -> its name in the manifest, if it has another one now.
    """

    path: Path
    project: str
    topologies: Mapping[str, TopologyDescription]
    renamed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Manifest:
        """The manifest in a `target/manifest.json`. Raises ManifestError."""
        try:
            plain = read_object(path)
            form = fitting(_Form, plain)
            if form.schema not in range(1, MANIFEST_SCHEMA + 1):
                raise ManifestError(
                    path,
                    f"the manifest has format {form.schema}, this version reads formats up to {MANIFEST_SCHEMA}",
                    f"plan with the version of Headwater that has written it: {form.headwater}",
                )
            written = fitting(_Written, plain)
            return cls(path, written.project.name, dict(_described(path, written)))
        except OSError as error:
            raise ManifestError(path, error.strerror or str(error)) from error
        except DamagedFileError as error:
            raise ManifestError(path, f"it is no manifest: {error}", _THE_FILE) from error

    def with_present_names(self, former_names: Mapping[str, tuple[str, ...]]) -> Manifest:
        """The manifest with the present names of applications. `former_names`: application -> its former names."""
        topologies, renamed = dict(self.topologies), dict[str, str]()
        for new, olds in former_names.items():
            for old in olds:
                if old in topologies and new not in topologies:
                    renames = Renames.of_application(old, new, topologies[old].topics)
                    renamed[new] = old
                    topologies = {
                        new if name == old else name: renamed_description(description, renames)
                        for name, description in topologies.items()
                    }
        return replace(self, topologies=topologies, renamed=renamed)

    def renames_in(self, topology: Topology) -> Renames:
        """The renames of a topology and its parts since the manifest."""
        renames = renames_between(topology, self.topologies.get(topology.application, TopologyDescription()))
        old = self.renamed.get(topology.application)
        return renames if old is None else replace(renames, application={old: topology.application})

    def declarations(self) -> dict[str, TopicDeclaration]:
        """Topic -> its declaration."""
        return {name: topic for description in self.topologies.values() for name, topic in description.topics.items()}


@dataclass(frozen=True)
class _Form:
    """The fields of every version."""

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
    """The fields that a plan needs."""

    project: _WrittenProject
    topologies: tuple[_WrittenTopology, ...]


def _described(path: Path, written: _Written) -> Iterator[tuple[str, TopologyDescription]]:
    """(application, description) of all topologies. Raises ManifestError, DamagedFileError."""
    for number, topology in enumerate(written.topologies):
        at = f"topologies[{number}]"
        if topology.application != f"{written.project.name}-{topology.name}":
            raise DamagedFileError(f"{at}.application is not that of topology {topology.name}")
        if topology.committed is None:
            raise ManifestError(
                path,
                f"it lacks the description of topology {topology.name}, as it is of an earlier version of Headwater",
                "compile the deployed project with this version: headwater compile",
            )
        _check_texts(f"{at}.committed", topology.committed)
        yield topology.application, topology.committed


def _check_texts(at: str, committed: TopologyDescription) -> None:
    """Check the texts that are parsed later. Raises DamagedFileError."""
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


@dataclass(frozen=True)
class FormerNames:
    """Finds `was` entries without an effect: already renamed, or unknown.

    `topologies`: application -> its former names. `committed`: applications with commits, under their present names.
    `where`: `the log` or `the manifest`.
    """

    topologies: Mapping[str, tuple[str, ...]]
    committed: Collection[str]
    where: str

    def idle(self, topology: Topology, before: TopologyDescription, renames: Renames) -> Iterator[Change]:
        """The `was` entries of a topology without an effect. `before`: its committed description. `renames`: of the
        next run. Few places of a description have names of steps, so unknown steps are not reported.
        """
        if not self.committed:
            return  # a new log, or an empty manifest
        subject = Subject.of_topology(topology.application)
        old = [_bare(name) for name in self.topologies.get(topology.application, ())]
        if old and not renames.application:
            yield self._idle(subject, old, bool(before.subtopologies), [*map(_bare, self.committed)])
        committed, declared = _names(before), _names(TopologyDescription.from_topology(topology))
        if not any(part.steps for part in before.subtopologies.values()):
            return  # not committed, or by a version that did not record flows
        renamed = {*renames.subtopologies.values(), *renames.stores.values(), *renames.steps.values()}
        for name, former in topology.was.items():
            if name not in declared or name in renamed or (name not in committed and committed.keys() & {*former}):
                continue
            part = Subject(declared[name], name, topology.application)
            yield self._idle(part, former, name in committed, committed.keys() - declared.keys())

    def _idle(self, subject: Subject, former: Collection[str], has_run: bool, committed: Collection[str]) -> Change:
        entry = f"`was: {next(iter(former))}`" if len(former) == 1 else f"`was: [{', '.join(former)}]`"
        if has_run:
            what = (
                f"{entry} has no effect any more: {self.where} has it as {subject.name}. Once every copy of the log "
                "has, `was` can go"
            )
        else:
            close = guess(next(iter(former)), sorted(committed), "")
            what = f"{entry} names nothing in {self.where}, so {subject.name} counts as new"
            what += f"; {close}" if close else ""
        return Change("was.idle", subject, Verdict.NOTHING, what)


def _names(description: TopologyDescription) -> dict[str, SubjectKind]:
    """The names of flows, tables and stores."""
    names: dict[str, SubjectKind] = dict.fromkeys(description.stores, "store")
    for part in description.subtopologies.values():
        names |= dict.fromkeys((step.flow for step in part.steps), "flow")
        names |= dict.fromkeys((filler.flow for filler in part.fillers), "flow")
    return names


def _bare(application: str) -> str:
    return application.partition("-")[2]


_REFUSED = "`seed` and `build` report an error; `run` uses the committed records"


def seed_change(log: Log, committed: LogState, topic: Topic, spec: SeedSpec, project_dir: Path) -> Change | None:
    """The change of a seed, as `seed` and `build` handle it; None if it is unchanged.

    The hash of the file or of the function's source is compared. The records of a file with another hash are compared
    with the committed ones. No function is called.
    """
    subject = Subject("seed", topic.name, committed.application)
    try:
        digest = seed_digest(topic, spec, project_dir)
        seed = committed.seeds.get(topic.name)
        if seed is None:
            what = f"`seed` and `build` write {spec.source} to it, which is not committed yet"
            return Change("seed.added", subject, Verdict.COMPATIBLE, what, place=spec.path)
        if seed.hash == digest:
            return None
        moves = topic.name in committed.topics and committed.topics[topic.name].can_move_to(topic)
        if not moves:
            check_readable(committed, topic)
        if spec.path is None:
            said = f"{_changed(committed, topic, moves)}. Unless {spec.source} gives the same records, {_REFUSED}"
        elif (difference := other_records(log, committed, topic, spec, project_dir)) is not None:
            said = f"it is not the committed one ({difference}): {_REFUSED}"
        else:
            what = (
                "it gives the committed records: a run repartitions them"
                if moves
                else "it gives the committed records, with the present columns: nothing is written"
            )
            return Change("seed.same", subject, Verdict.COMPATIBLE, what, place=spec.path)
    except TopicChangedError as error:
        ways = ways_to_declare(error, committed, topic)
        return Change("seed.topic", subject, Verdict.ERROR, error.message, place=spec.path, ways=ways)
    except HeadwaterError as error:
        way = Way(error.hint) if error.hint else UNDO
        return Change("seed.unreadable", subject, Verdict.ERROR, f"it cannot be read: {error.message}", ways=(way,))
    return Change(
        "seed.changed",
        subject,
        Verdict.ERROR,
        said,
        place=spec.path,
        ways=(
            Way("put it back as it was"),
            Way(
                "seed it again, which also starts again what has read it; records appended to it stay, behind it",
                f"headwater seed {topic.name} --full-refresh",
            ),
        ),
    )


def _changed(committed: LogState, topic: Topic, moves: bool) -> str:
    """Why the records of a function may differ. `moves`: a run repartitions the committed ones."""
    if _declared_alike(committed, topic):
        return "its function changed"
    return f"its topic has {'another key or partition count' if moves else 'other columns'} now"


def _declared_alike(committed: LogState, topic: Topic) -> bool:
    """Whether a topic is declared in the same way as its committed records."""
    was, now = committed.topics.get(topic.name), ExternalTopic.from_topic(topic)
    return was is not None and (was.partitions, was.key, was.value) == (now.partitions, now.key, now.value)
