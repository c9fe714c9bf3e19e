"""What a plan compares with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import HeadwaterError
from ...suggestions import guess
from ...version import MANIFEST_SCHEMA
from ..ingest.seeds import SeedSpec, other_records, seed_digest
from ..ir.topology import Topic, Topology
from ..log.commit.descriptions import FedTopic, TopicDeclaration, TopologyDescription
from ..log.commit.records import Renames
from ..log.declared_topics import check_readable
from ..log.errors import TopicChangedError
from ..log.log import Log
from ..log.state import LogState
from ..log.state_parts.renamed import renamed_description
from ..progress.committer import renames_between
from ..records.types import TypeSyntaxError, parse_columns
from .model import UNDO, Change, Subject, SubjectKind, Verdict, Way, ways_to_declare
from .plan import DamagedFileError, fitting, read_object

# The manifest of a deployed project: what a plan is made against where the log is not at hand.

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


# Finds each `was` that changes nothing: it has done its work, or names what nobody has committed.


@dataclass(frozen=True)
class FormerNames:
    """What is known of the names before. `topologies`: application -> what it was called. `committed`: the applications
    that have committed something, under their names of now. `where`: `the log` or `the manifest`.
    """

    topologies: Mapping[str, tuple[str, ...]]
    committed: Collection[str]
    where: str

    def idle(self, topology: Topology, before: TopologyDescription, renames: Renames) -> Iterator[Change]:
        """Those of a topology that change nothing. `before`: what is committed of it. `renames`: what the next run
        renames. A step leaves its name in few places only, so of one that is not found nothing is said.
        """
        if not self.committed:
            return  # a log that has just begun, or a manifest of nothing
        subject = Subject.of_topology(topology.application)
        old = [_bare(name) for name in self.topologies.get(topology.application, ())]
        if old and not renames.application:
            yield self._idle(subject, old, bool(before.subtopologies), [*map(_bare, self.committed)])
        known, now = _names(before), _names(TopologyDescription.of(topology))
        if not any(part.steps for part in before.subtopologies.values()):
            return  # not committed, or by a version that did not name the flows
        renamed = {*renames.subtopologies.values(), *renames.stores.values(), *renames.steps.values()}
        for name, former in topology.was.items():
            if name not in now or name in renamed or (name not in known and known.keys() & {*former}):
                continue
            part = Subject(now[name], name, topology.application)
            yield self._idle(part, former, name in known, known.keys() - now.keys())

    def _idle(self, subject: Subject, former: Collection[str], has_run: bool, known: Collection[str]) -> Change:
        said = f"`was: {next(iter(former))}`" if len(former) == 1 else f"`was: [{', '.join(former)}]`"
        if has_run:
            what = (
                f"{said} changes nothing any more: {self.where} has it as {subject.name}. Once every copy of the log "
                "has, `was` can go"
            )
        else:
            close = guess(next(iter(former)), sorted(known), "")
            what = f"{said} names nothing that {self.where} has, so {subject.name} counts as new"
            what += f"; {close}" if close else ""
        return Change("was.idle", subject, Verdict.NOTHING, what)


def _names(found: TopologyDescription) -> dict[str, SubjectKind]:
    """The names of flows, tables and stores."""
    names: dict[str, SubjectKind] = dict.fromkeys(found.stores, "store")
    for part in found.subtopologies.values():
        names |= dict.fromkeys((step.flow for step in part.steps), "flow")
        names |= dict.fromkeys((filler.flow for filler in part.fillers), "flow")
    return names


def _bare(application: str) -> str:
    return application.partition("-")[2]


# Compares the seed of a topic with the one that is committed.

_REFUSED = "`seed` and `build` refuse it; `run` goes on with the records that are there"


def seed_change(log: Log, committed: LogState, topic: Topic, spec: SeedSpec, project_dir: Path) -> Change | None:
    """What `seed` and `build` would do about a seed; None if it is committed as it is.

    The file or the function's source is read to compare its hash. A file of another hash is compared with the committed
    records. No function is called.
    """
    subject = Subject("seed", topic.name, committed.application)
    try:
        digest = seed_digest(topic, spec, project_dir)
        known = committed.seeds.get(topic.name)
        if known is None:
            what = f"`seed` and `build` write {spec.source} to it, which is not committed yet"
            return Change("seed.added", subject, Verdict.COMPATIBLE, what, place=spec.path)
        if known.hash == digest:
            return None
        moves = topic.name in committed.topics and committed.topics[topic.name].can_move_to(topic)
        if not moves:
            check_readable(committed, topic)
        if spec.path is None:
            said = f"{_changed(committed, topic, moves)}. Unless {spec.source} gives the same records, {_REFUSED}"
        elif (difference := other_records(log, committed, topic, spec, project_dir)) is not None:
            said = f"it is not what was committed ({difference}): {_REFUSED}"
        else:
            what = (
                "it gives the records that were committed: a run puts them where the topic has them now"
                if moves
                else "it gives the records that were committed, with the columns of now: nothing is written again"
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
    """Why records that a function gives may be others. `moves`: a run puts those that are there elsewhere."""
    if _declared_alike(committed, topic):
        return "its function changed"
    return f"its topic has {'another key or partition count' if moves else 'other columns'} now"


def _declared_alike(committed: LogState, topic: Topic) -> bool:
    """Whether a topic is declared as it was when its records were written."""
    was, now = committed.topics.get(topic.name), FedTopic.of(topic)
    return was is not None and (was.partitions, was.key, was.value) == (now.partitions, now.key, now.value)
