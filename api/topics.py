"""Fills the topics of a project, and reads their committed records."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..compiler.model.project import FROM_KAFKA
from ..compiler.outcomes import UnknownNameError
from ..compiler.reading.source import without_notes
from ..errors import HeadwaterError
from ..runtime.changes.found import as_if_restarted
from ..runtime.ingest.append import AppendResult, SeedReplacement, append, replacement
from ..runtime.ingest.incoming import from_python
from ..runtime.ingest.retry import RetryResult, check_letters, retry
from ..runtime.ingest.seeds import SeedFiles, SeedResult, SeedSpec, check_again, seed, seed_digest
from ..runtime.ir.topology import Topic
from ..runtime.log.commit.descriptions import ExternalTopic, declaration_text
from ..runtime.log.declared_topics import check_writers, declared_topic, topic_in_log
from ..runtime.log.log import Log
from ..runtime.log.state import LogState
from ..runtime.progress.resets import Removal, locked, plan_application_removal, readers, refresh_fully
from ..runtime.query.rows import Rows
from ..runtime.query.topics import TopicReader, read_table, table_schema
from ..runtime.records.record_json import Record
from ..runtime.records.values import from_json
from .arguments import check_name, check_names, check_number
from .target import Part

if TYPE_CHECKING:
    pass

_FOLLOW_SECONDS = 0.2
"""The time between two reads of a followed topic."""


class Topics(Part):
    """The topics of a project, in the log of its target."""

    @cached_property
    def _seed_files(self) -> SeedFiles:
        return SeedFiles()

    def seed(
        self, topics: Sequence[str], *, full_refresh: bool, keep_unchanged: bool, drop_appended: bool
    ) -> tuple[SeedResult, ...]:
        """See `Project.seed`."""
        check_names("topics", topics)
        log, state_dir = self._target.log(), self._target.state_dir()
        names = topics or self._selection.seeds()
        if full_refresh:  # check all topics before the first one is replaced
            self._check_seeds(log, names, keep_unchanged, drop_appended)
        with locked(state_dir, readers(log, names) if full_refresh else ()):
            seeded = tuple(self._seed(log, name, full_refresh, keep_unchanged, drop_appended) for name in names)
        replaced = [seed_.topic for seed_ in seeded if seed_.outcome == "replaced"]
        refresh_fully(log, state_dir, readers(log, replaced))
        return seeded

    def starting_again(self, applications: Collection[str]) -> list[str]:
        """The topics that a build with a full refresh seeds, once it has removed `applications`.

        Raises WriterChangedError, and what `seed` raises.
        """
        empty = as_if_restarted(self._target.log_to_read(), applications)
        return self._check_seeds(empty, self._selection.seeds(), keep_unchanged=True, drop_appended=False)

    def plan_seed(
        self, topics: Sequence[str], keep_unchanged: bool, drop_appended: bool
    ) -> tuple[tuple[SeedReplacement, ...], tuple[Removal, ...]]:
        """See `Project.plan_seed`."""
        check_names("topics", topics)
        log = self._target.log_to_read()
        self._check_seeds(log, topics or self._selection.seeds(), keep_unchanged, drop_appended)
        state = LogState.load(log.commits(self._files.seeds))
        replacements = [
            replacement(state, name)
            for name in topics or self._selection.seeds()
            if name in state.topics and not (keep_unchanged and self._is_seeded(state, name))
        ]
        reading = readers(log, [replaced.topic for replaced in replacements])
        return tuple(replacements), tuple(plan_application_removal(log, reader) for reader in reading)

    def _is_seeded(self, state: LogState, name: str) -> bool:
        """Whether the present seed of a topic is committed."""
        committed, (topic, spec) = state.seeds.get(name), self._seed_of(name)
        return committed is not None and committed.hash == seed_digest(topic, spec, self._files.root, self._seed_files)

    def append(self, topic: str, records: Any, as_json: bool) -> AppendResult:
        """See `Project.append`."""
        check_name("topic", topic)
        self._files.require_valid()
        declared = self._files.checked.topics.get(topic)
        if declared is None:
            raise self._files.unknown_topic(topic)
        if declared.writer is not None:
            hint = "append to an external topic"
            if declared.writer == self._files.checked.model.application(FROM_KAFKA):
                hint = "write to the topic in Kafka; in a target without `kafka`, the topic is external"
            raise HeadwaterError(f"{topic} is written by {declared.writer}", hint)
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
        dead_letters = list(TopicReader(log, self.writer(letters), letters).read())
        if not dead_letters:
            return RetryResult(None, 0, 0, 0)
        name = str((dead_letters[0].value or {})["topic"])
        origin = self._files.checked.topics.get(name)
        if origin is None or origin.writer is not None:
            raise HeadwaterError(
                f"the dead letters in {topic} are records of {name}, which "
                + (f"{origin.writer} writes" if origin is not None else "is not an external topic"),
                "correct its input, or let a topology read the dead letters",
            )
        check_writers(log, self._files.name, [origin])
        return retry(log, self._files.seeds, letters, dead_letters, origin, records)

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
        was, is_ = ExternalTopic.from_topic(then).changes(now)
        return declaration_text(was, is_) or None

    def application(self, topic: str) -> str:
        """The application that writes a topic. Raises UnknownNameError."""
        return self.writer(self.committed(self._target.log_to_read(), topic))

    def committed(self, log: Log, name: str) -> Topic:
        """A topic as it was last committed, or else as it is declared. Raises WriterChangedError, UnknownNameError."""
        files = self._files
        declared = files.checked.topics.get(name)
        if files.checked.diagnostics.has_errors:  # the topic's writer may be in an unreadable file
            topic = declared_topic(log, files.name, name) or declared
        else:
            if declared is not None:
                declared = topic_in_log(log, files.name, declared)
            topic = declared_topic(log, files.name, name, declared) or declared
        if topic is None:
            # The name of a topic may have dots, as `topology.store` has.
            stores = files.resources.of_kinds("store")
            is_store = any(name in (store.name, f"{store.topology}.{store.name}") for store in stores)
            raise files.or_project_errors(
                UnknownNameError("topic", name, f"it is a store: `headwater query {name}` shows it")
                if is_store
                else files.unknown_topic(name)
            )
        return topic

    def writer(self, topic: Topic) -> str:
        """The application whose commits have the records of a topic."""
        return topic.writer or self._files.seeds

    def _seed(self, log: Log, name: str, full_refresh: bool, keep_unchanged: bool, drop_appended: bool) -> SeedResult:
        topic, spec = self._seed_of(name)
        check_writers(log, self._files.name, [topic])
        root, files = self._files.root, self._seed_files
        return seed(log, self._files.seeds, topic, spec, root, full_refresh, keep_unchanged, drop_appended, files)

    def _check_seeds(self, log: Log, names: Sequence[str], keep_unchanged: bool, drop_appended: bool) -> list[str]:
        """Check that topics can start again with their seeds. Returns those that would: see `check_again`."""
        state, restarting = LogState.load(log.commits(self._files.seeds)), list[str]()
        root, files = self._files.root, self._seed_files
        for name in names:
            topic, spec = self._seed_of(name)
            check_writers(log, self._files.name, [topic])
            if check_again(state, topic, spec, root, files, keep_unchanged=keep_unchanged, drop_appended=drop_appended):
                restarting.append(name)
        return restarting

    def _seed_of(self, name: str) -> tuple[Topic, SeedSpec]:
        """A topic and its seed. Raises UnknownNameError."""
        checked = self._files.checked
        model = checked.model.topics.get(name)
        if name not in checked.topics:
            raise self._files.unknown_topic(name)
        topic = checked.topics[name]
        if model is None or model.seed is None or topic.writer is not None:
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
        """Committed records, at most `limit`."""
        reader, left = self._reader(), self.limit
        while True:
            for record in reader.read(left):
                left = None if left is None else left - 1
                yield record
            if not self.follow or left == 0:
                return
            time.sleep(_FOLLOW_SECONDS)

    def table(self) -> pa.Table:
        """Committed records, at most `limit`; with `follow` exactly `limit`. Raises HeadwaterError."""
        if self.follow and self.limit is None:
            raise HeadwaterError("a read with `follow` has no end", "give a limit, or iterate over its records")
        reader = self._reader()
        table = read_table(self.topic, reader, self.limit)
        while self.follow and self.limit is not None and table.num_rows < self.limit:
            time.sleep(_FOLLOW_SECONDS)
            table = pa.concat_tables([table, read_table(self.topic, reader, self.limit - table.num_rows)])
        return table

    def _reader(self) -> TopicReader:
        return TopicReader(self.log, self.writer, self.topic, self.start, as_written=self.follow)
