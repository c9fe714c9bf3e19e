"""Fills the topics of a project, and reads their committed records."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..compiler.outcomes import UnknownNameError
from ..compiler.reading.source import without_notes
from ..errors import HeadwaterError
from ..runtime.changes.found import as_if_begun_again
from ..runtime.ingest.append import AppendResult, SeedReplacement, append, replacement
from ..runtime.ingest.incoming import from_python
from ..runtime.ingest.retry import RetryResult, check_letters, retry
from ..runtime.ingest.seeds import SeedFiles, SeedResult, SeedSpec, check_again, seed, seed_digest
from ..runtime.ir.topology import Topic
from ..runtime.log.commit.descriptions import FedTopic, declaration_text
from ..runtime.log.declared_topics import check_writers, declared_topic, held_topic
from ..runtime.log.log import Log
from ..runtime.log.state import LogState
from ..runtime.progress.resets import Removal, held, plan_application_removal, readers, refresh_fully
from ..runtime.query.rows import Rows
from ..runtime.query.topics import TopicReader, read_table, table_schema
from ..runtime.records.record_json import Record
from ..runtime.records.values import from_json
from .arguments import check_name, check_names, check_number
from .files import CheckedFiles, Selection
from .target import Target

if TYPE_CHECKING:
    from ..runtime.cluster.spark.on_demand import SparkOnDemand

_FOLLOW_SECONDS = 0.2
"""The time between two reads of a log that is followed."""


class Topics:
    """The topics of a project, in the log of its target."""

    def __init__(self, files: CheckedFiles, selection: Selection, target: Target, spark: SparkOnDemand) -> None:
        self._files = files
        self._selection = selection
        self._target = target
        self._spark = spark
        self._seed_files = SeedFiles()

    def seed(
        self, topics: Sequence[str], *, full_refresh: bool, keep_unchanged: bool, drop_appended: bool
    ) -> tuple[SeedResult, ...]:
        """See `Project.seed`."""
        check_names("topics", topics)
        log, state_dir = self._target.log(), self._target.state_dir()
        names = topics or self._selection.seeds()
        if full_refresh:  # all of them before the first one is replaced
            self._check_again(log, names, keep_unchanged, drop_appended)
        with held(state_dir, readers(log, names) if full_refresh else ()):
            seeded = tuple(self._seed(log, name, full_refresh, keep_unchanged, drop_appended) for name in names)
        replaced = [each.topic for each in seeded if each.outcome == "replaced"]
        refresh_fully(log, state_dir, readers(log, replaced))
        return seeded

    def starting_again(self, applications: Collection[str]) -> list[str]:
        """The topics that a build with a full refresh seeds, once it has removed `applications`.

        Raises WriterChangedError, and what `seed` raises.
        """
        empty = as_if_begun_again(self._target.log_to_read(), applications)
        return self._check_again(empty, self._selection.seeds(), keep_unchanged=True, drop_appended=False)

    def plan_seed(
        self, topics: Sequence[str], keep_unchanged: bool, drop_appended: bool
    ) -> tuple[tuple[SeedReplacement, ...], tuple[Removal, ...]]:
        """See `Project.plan_seed`."""
        check_names("topics", topics)
        log = self._target.log_to_read()
        self._check_again(log, topics or self._selection.seeds(), keep_unchanged, drop_appended)
        state = LogState.load(log.commits(self._files.seeds))
        found = [
            replacement(state, name)
            for name in topics or self._selection.seeds()
            if name in state.topics and not (keep_unchanged and self._is_seeded(state, name))
        ]
        read = readers(log, [each.topic for each in found])
        return tuple(found), tuple(plan_application_removal(log, each) for each in read)

    def _is_seeded(self, state: LogState, name: str) -> bool:
        """Whether the seed of a topic is committed as it is now."""
        known, (topic, spec) = state.seeds.get(name), self._seed_of(name)
        return known is not None and known.hash == seed_digest(topic, spec, self._files.root, self._seed_files)

    def append(self, topic: str, records: Any, as_json: bool) -> AppendResult:
        """See `Project.append`."""
        check_name("topic", topic)
        self._files.require_valid()
        declared = self._files.checked.topics.get(topic)
        if declared is None:
            raise self._files.no_topic(topic)
        if declared.writer is not None:
            raise HeadwaterError(
                f"{topic} is written by {declared.writer}", "append to a topic that is fed from outside"
            )
        log = self._target.log()
        check_writers(log, self._files.name, [declared])
        values = from_json if as_json else from_python
        return append(log, self._files.seeds, declared, records, values=values)

    def retry(self, topic: str, records: Sequence[Mapping[str, Any]] | None) -> RetryResult:
        """See `Project.retry`."""
        check_name("topic", topic)
        self._files.require_valid()
        log = self._target.log()
        letters = self.committed(log, topic)
        check_letters(letters, self._files.checked.topics.values())
        held = list(TopicReader(log, self.writer(letters), letters).read())
        if not held:
            return RetryResult(None, 0, 0, 0)
        name = str((held[0].value or {})["topic"])
        origin = self._files.checked.topics.get(name)
        if origin is None or origin.writer is not None:
            raise HeadwaterError(
                f"the dead letters in {topic} are records of {name}, which "
                + (f"{origin.writer} writes" if origin is not None else "is no topic that is fed from outside"),
                "put right what it reads, or let a topology read the dead letters",
            )
        check_writers(log, self._files.name, [origin])
        return retry(log, self._files.seeds, letters, held, origin, records)

    def read(self, topic: str, *, start: int | None, limit: int | None, follow: bool) -> Rows[Record]:
        """See `Project.read`."""
        check_name("topic", topic)
        check_number("start", start, 0)
        check_number("limit", limit, 0)
        log = self._target.log_to_read()
        declared = self.committed(log, topic)
        reading = _Reading(declared, log, self.writer(declared), start, limit, follow)
        return Rows(f"topic {topic}", table_schema(declared), reading.records, reading.table, self._spark.session)

    def declared_otherwise(self, topic: str) -> str | None:
        """See `Project.declared_otherwise`."""
        now = self._files.checked.topics.get(topic)
        if now is None or self._files.checked.diagnostics.has_errors:  # the errors may be in the topic's declaration
            return None
        then = self.committed(self._target.log_to_read(), topic)
        was, is_ = FedTopic.of(then).changes(now)
        return declaration_text(was, is_) or None

    def application(self, topic: str) -> str:
        """Who writes a topic. Raises UnknownNameError."""
        return self.writer(self.committed(self._target.log_to_read(), topic))

    def committed(self, log: Log, name: str) -> Topic:
        """A topic as it was last committed, else as it is declared. Raises WriterChangedError, UnknownNameError."""
        files = self._files
        declared = files.checked.topics.get(name)
        if files.checked.diagnostics.has_errors:  # the topic's writer may be in a file that cannot be read
            found = declared_topic(log, files.name, name) or declared
        else:
            if declared is not None:
                declared = held_topic(log, files.name, declared)
            found = declared_topic(log, files.name, name, declared) or declared
        if found is None:
            # A topic's name may have dots as well as that of a store with its topology.
            stores = files.resources.of("store")
            is_store = any(name in (each.name, f"{each.topology}.{each.name}") for each in stores)
            raise files.unknown(
                UnknownNameError("topic", name, f"it is a store: `headwater query {name}` shows it")
                if is_store
                else files.no_topic(name)
            )
        return found

    def writer(self, topic: Topic) -> str:
        """The application in whose commits the records of a topic are."""
        return topic.writer or self._files.seeds

    def _seed(self, log: Log, name: str, full_refresh: bool, keep_unchanged: bool, drop_appended: bool) -> SeedResult:
        topic, spec = self._seed_of(name)
        check_writers(log, self._files.name, [topic])
        root, files = self._files.root, self._seed_files
        return seed(log, self._files.seeds, topic, spec, root, full_refresh, keep_unchanged, drop_appended, files)

    def _check_again(self, log: Log, names: Sequence[str], keep_unchanged: bool, drop_appended: bool) -> list[str]:
        """Check that topics can start again with their seeds; those that would, see `check_again`."""
        state, found = LogState.load(log.commits(self._files.seeds)), list[str]()
        root, files = self._files.root, self._seed_files
        for name in names:
            topic, spec = self._seed_of(name)
            check_writers(log, self._files.name, [topic])
            if check_again(state, topic, spec, root, files, keep_unchanged=keep_unchanged, drop_appended=drop_appended):
                found.append(name)
        return found

    def _seed_of(self, name: str) -> tuple[Topic, SeedSpec]:
        """A topic and its seed. Raises UnknownNameError."""
        checked = self._files.checked
        model = checked.model.topics.get(name)
        if name not in checked.topics:
            raise self._files.no_topic(name)
        topic = checked.topics[name]
        if model is None or model.seed is None:
            written = f"it is written by {topic.writer}; " if topic.writer is not None else ""
            hint = f"{written}topics with a seed: {', '.join(self._selection.seeds()) or 'none'}"
            raise UnknownNameError("seed for the topic", name, hint)
        return topic, SeedSpec(**without_notes(model.seed.to_python()))


@dataclass(frozen=True)
class _Reading:
    """The arguments of one `read`. Each use reads the log again."""

    topic: Topic
    log: Log
    writer: str
    start: int | None
    limit: int | None
    follow: bool

    def records(self) -> Iterator[Record]:
        """Records as they are committed, `limit` of them at most."""
        reader, left = self._reader(), self.limit
        while True:
            for record in reader.read(left):
                left = None if left is None else left - 1
                yield record
            if not self.follow or left == 0:
                return
            time.sleep(_FOLLOW_SECONDS)

    def table(self) -> pa.Table:
        """The records that are committed, `limit` of them at most; with `follow` that many. Raises HeadwaterError."""
        if self.follow and self.limit is None:
            raise HeadwaterError("a read that follows has no end", "give a limit, or go through its records")
        reader = self._reader()
        table = read_table(self.topic, reader, self.limit)
        while self.follow and self.limit is not None and table.num_rows < self.limit:
            time.sleep(_FOLLOW_SECONDS)
            table = pa.concat_tables([table, read_table(self.topic, reader, self.limit - table.num_rows)])
        return table

    def _reader(self) -> TopicReader:
        return TopicReader(self.log, self.writer, self.topic, self.start, as_written=self.follow)
