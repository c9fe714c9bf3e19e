"""Checks cases against their topology: names, columns and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as AbstractMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...runtime.engine.operators.topics import Sink
from ...runtime.environment import parse_duration
from ...runtime.ingest.seeds import SeedSpec
from ...runtime.ir.topology import GlobalTable, Store, Topic
from ...runtime.query.rows import table_schema
from ...runtime.records.arrays import BadValueError
from ...runtime.records.schema import WINDOW_COLUMNS, key_columns, value_columns
from ...runtime.records.types import TIMESTAMP, parse_columns
from ...runtime.records.values import exact_number
from ...runtime.testing.driven import (
    DROP_REASONS,
    Advance,
    Expected,
    ExpectedDrops,
    ExpectedRows,
    Input,
    Records,
    SeedRows,
    incoming_of,
)
from ...runtime.testing.rows import Cells, Columns, UnfitRowError, cells_of, record_form, way_out
from ...unusable_paths import is_outside
from ..diagnostics import Diagnostics, Position, did_you_mean
from ..reading.source import MappingNode, Node, ScalarNode
from ..reading.source import SequenceNode as Items
from ..topology.graph import PythonStage, TopologyGraph
from .cases import Case


@dataclass(frozen=True)
class CheckedCase:
    """A case that can be run. `expected`: the expected results, with their entries in the file."""

    case: Case
    given: tuple[Input, ...]
    expected: tuple[tuple[MappingNode, Expected], ...]


@dataclass(frozen=True)
class TestedTopology:
    """The parts of a topology that tests can name: the topics it reads and writes, and its stores, by name.

    `stores`: with their subtopology. `collapsed`: topics with only the last change per key and epoch.
    """

    name: str
    read: AbstractMapping[str, Topic]
    written: AbstractMapping[str, Topic]
    stores: AbstractMapping[str, tuple[str, Store]]
    global_tables: AbstractMapping[str, GlobalTable]
    collapsed: frozenset[str]

    @classmethod
    def from_graph(cls, graph: TopologyGraph) -> TestedTopology:
        """Collect the parts of a topology, without repartition topics."""
        inner = set(graph.repartition_topics)
        parts = graph.subtopologies
        sinks = [
            node
            for part in parts
            for stage in part.stages
            if isinstance(stage, PythonStage)
            for node in stage.nodes
            if isinstance(node, Sink)
        ]
        read = [topic for part in parts for topic in (*part.sources, *(table.topic for table in part.global_tables))]
        return cls(
            graph.name,
            {
                topic.name: topic
                for topic in (*read, *(table.topic for table in graph.global_tables))
                if topic.name not in inner
            },
            {topic.name: topic for part in parts for topic in part.sinks if topic.name not in inner},
            {store.name: (part.name, store) for part in parts for store in part.stores},
            {table.store.name: table for table in graph.global_tables},
            frozenset(sink.topic.name for sink in sinks if sink.mode == "per_epoch"),
        )


def columns_of_topic(topic: Topic) -> Columns:
    """The columns of a topic's records."""
    return Columns(topic.name, key_columns(topic), value_columns(topic))


def columns_of_store(store: Store) -> Columns:
    """The columns of a store's rows."""
    windows = [name for name in table_schema(store).names if name in WINDOW_COLUMNS]
    return Columns(store.name, parse_columns(store.key) | dict.fromkeys(windows, TIMESTAMP), parse_columns(store.value))


def check_case(case: Case, graph: TopologyGraph, root: Path, diagnostics: Diagnostics) -> CheckedCase | None:
    """The case, ready to run; None after a reported error."""
    checking = _Checking(TestedTopology.from_graph(graph), root, diagnostics)
    given = [checking.given(entry) for entry in case.given]
    expected = [checking.expected(entry) for entry in case.expect]
    if checking.faulty or None in given or None in expected:
        return None
    return CheckedCase(
        case,
        tuple(item for item in given if item is not None),
        tuple((entry, result) for entry, result in zip(case.expect, expected, strict=True) if result is not None),
    )


class _Checking:
    """One case. `faulty`: an error was reported."""

    def __init__(self, topology: TestedTopology, root: Path, diagnostics: Diagnostics) -> None:
        self.faulty = False
        self._topology = topology
        self._root = root
        self._diagnostics = diagnostics

    def given(self, entry: MappingNode) -> Input | None:
        """An entry of `given`."""
        for word, wall_clock in (("advance", False), ("advance_wall_clock", True)):
            duration = entry.get(word)
            if isinstance(duration, ScalarNode) and duration.value is not None:
                return Advance(parse_duration(duration.text), wall_clock)
        name = entry.get("topic")
        if not isinstance(name, ScalarNode) or name.broken:
            return None
        topic = self._topology.read.get(name.text)
        if topic is None or name.text in self._topology.written:
            self._not_read(name)
            return None
        file = entry.get("file")
        if isinstance(file, ScalarNode):
            return self._file(topic, file)
        columns = columns_of_topic(topic)
        written = list(_rows(entry))
        records = [self._record(columns, row, given=True) for row in written]
        valid = [(row, record) for row, record in zip(written, records, strict=True) if record is not None]
        self._check_values(topic, valid)
        return Records(topic, tuple(record for _, record in valid)) if len(valid) == len(written) else None

    def expected(self, entry: MappingNode) -> Expected | None:
        """An entry of `expect`."""
        topic, store, dropped = entry.get("topic"), entry.get("store"), entry.get("dropped")
        if isinstance(topic, ScalarNode) and not topic.broken:
            written = self._topology.written.get(topic.text)
            if written is None:
                self._not_written(topic)
                return None
            last = topic.text in self._topology.collapsed
            return self._expected_rows("topic", topic.text, columns_of_topic(written), entry, last)
        if isinstance(store, ScalarNode) and not store.broken:
            columns = self._columns_of(store.text)
            if columns is None:
                stores = [*self._topology.stores, *self._topology.global_tables]
                self._unknown(store, f"{self._topology.name} has no store '{store.text}'", stores)
                return None
            return self._expected_rows("store", store.text, columns, entry, False)
        return self._drops(dropped) if isinstance(dropped, MappingNode) else None

    def _expected_rows(
        self, kind: Any, name: str, columns: Columns, entry: MappingNode, last: bool
    ) -> ExpectedRows | None:
        written = list(_rows(entry))
        rows = [self._cells(columns, row) for row in written]
        valid = [row for row in rows if row is not None]
        if len(valid) < len(written):
            return None
        in_any_order = kind == "store" or _is_true(entry.get("any_order"))
        contains = _is_true(entry.get("contains"))
        return ExpectedRows(kind, name, columns, tuple(valid), in_any_order, contains, last)

    def _columns_of(self, store: str) -> Columns | None:
        if store in self._topology.global_tables:
            return columns_of_store(self._topology.global_tables[store].store)
        return columns_of_store(self._topology.stores[store][1]) if store in self._topology.stores else None

    def _drops(self, counts: MappingNode) -> ExpectedDrops | None:
        for reason in counts:
            if reason not in DROP_REASONS:
                hint = did_you_mean(reason, DROP_REASONS) or f"The reasons are: {', '.join(DROP_REASONS)}."
                message = f"'{reason}' is not a reason for dropped records."
                self._report("HW801", counts.key_position(reason), message, hint)
        return None if self.faulty else ExpectedDrops(counts.to_python())

    def _file(self, topic: Topic, file: ScalarNode) -> SeedRows | None:
        path = self._root / file.text
        if is_outside(self._root, path):
            self._report("HW805", file.position, f"The file '{file.text}' is outside of the project.", None)
        elif not path.is_file():
            beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
            hint = did_you_mean(path.name, beside) or "Write its path relative to the project's folder, as for a seed."
            self._report("HW805", file.position, f"The file '{file.text}' does not exist.", hint)
        else:
            return SeedRows(topic, SeedSpec(path=file.text, order="file"))
        return None

    def _record(self, columns: Columns, row: MappingNode, *, given: bool) -> dict[str, Any] | None:
        try:
            return record_form(columns, _exact(row), given=given)
        except UnfitRowError as error:
            self._unfit(row, error)
            return None

    def _cells(self, columns: Columns, row: MappingNode) -> Cells | None:
        try:
            return cells_of(columns, record_form(columns, _exact(row)), written=True)
        except UnfitRowError as error:
            self._unfit(row, error)
            return None

    def _check_values(self, topic: Topic, rows: Sequence[tuple[MappingNode, dict[str, Any]]]) -> None:
        """Report the first invalid value of each row. All rows are tried at once first, because most are valid."""
        try:
            incoming_of(topic, [record for _, record in rows], 0)
        except BadValueError as error:
            if len(rows) > 1:
                for row in rows:
                    self._check_values(topic, [row])
                return
            path = tuple(error.column.split(".", 1)) if error.column else ()
            self._unfit(rows[0][0], UnfitRowError(path, error.cause, self._way_out(topic, rows[0][1], path)))

    @staticmethod
    def _way_out(topic: Topic, record: AbstractMapping[str, Any], path: Sequence[str]) -> str | None:
        columns = columns_of_topic(topic)
        if len(path) < 2 or path[1] not in (columns.key if path[0] == "key" else columns.value):
            return None
        return way_out((record.get(path[0]) or {}).get(path[1]), columns.type_of(*path))

    def _unfit(self, row: MappingNode, error: UnfitRowError) -> None:
        at = _position(row, error.path, of_key=error.unknown)
        message = f"{error.cause[:1].upper()}{error.cause[1:]}."
        if error.path and not error.unknown:
            message = f"The value of '{error.path[-1]}' is invalid: {error.cause}."
        self._report("HW802" if error.unknown else "HW803", at, message, error.hint)

    def _not_read(self, name: ScalarNode) -> None:
        own = f"{self._topology.name} writes '{name.text}' itself"
        what = own if name.text in self._topology.written else f"{self._topology.name} does not read '{name.text}'"
        self._unknown(name, what, self._topology.read.keys() - self._topology.written.keys(), "It reads")

    def _not_written(self, name: ScalarNode) -> None:
        what = f"{self._topology.name} does not write '{name.text}'"
        self._unknown(name, what, self._topology.written, "It writes")

    def _unknown(self, name: ScalarNode, message: str, valid: Iterable[str], listed: str = "It has") -> None:
        names = sorted(valid)
        hint = did_you_mean(name.text, names) or (f"{listed} {', '.join(names)}." if names else None)
        self._report("HW801", name.position, f"{message}.", hint)

    def _report(self, code: str, at: Position, message: str, hint: str | None) -> None:
        self.faulty = True
        self._diagnostics.add(code, at, message, hint)


def _rows(entry: MappingNode) -> Iterable[MappingNode]:
    rows = entry.get("rows")
    return [row for row in rows if isinstance(row, MappingNode)] if isinstance(rows, Items) else []


def _exact(node: Node) -> Any:
    """A node as values for `from_json`. Numbers with a fraction or an exponent keep all digits."""
    match node:
        case MappingNode():
            return {name: _exact(value) for name, value in node.items()}
        case Items():
            return [_exact(item) for item in node]
        case ScalarNode(value=float(), text=text):
            # YAML writes `.inf` and `.nan`. They stay floats, and an infinite one is rejected later.
            with suppress(ValueError):
                return exact_number(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return node.to_python()


def _is_true(node: Node | None) -> bool:
    return isinstance(node, ScalarNode) and node.value is True


def _position(row: MappingNode, path: tuple[str, ...], *, of_key: bool) -> Position:
    """The position of a cell's name or value. Columns may have their role in front: `key.x`."""
    candidates = [path, (".".join(path),), path[-1:]]
    for candidate in candidates:
        node: Node = row
        for step, name in enumerate(candidate):
            if not isinstance(node, MappingNode) or name not in node:
                break
            if of_key and step == len(candidate) - 1:
                return node.key_position(name)
            node = node[name]
        else:
            if candidate:
                return node.position
    return row.position
