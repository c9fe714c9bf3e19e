"""Random topologies of tables and lookups beside Kafka Streams' steps, one record after another (`one_by_one`).

A change may come to a join on several ways: what each of them meets is what matters here.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
import yaml

from headwater.tests.conformance.driving import WHOLE, Compiled
from headwater.tests.conformance.one_by_one import Event, Lookup, RowByRow, Sink, Source, Stored, TableJoin

TOPICS = ("T", "U", "A")

SEEDS = (33, 38, 60, 61, 63)
"""Of topologies in which results would be others if a lookup saw only what has come along the flows so far."""

EPOCHS = (1, 7, WHOLE)
"""Most records of an epoch: `make test` has one of them for each topology by turns, `make soak` all."""


class Drawn:
    """A topology as it stands in YAML, and the steps of the same. All rows have a number `n` and a text `s`."""

    def __init__(self, seed):
        self.chances = random.Random(seed)
        self.dropped = Counter()
        self.sources = {name: Source() for name in TOPICS}
        self.sinks, self.flows, self.tables, self.streams = {}, {}, {}, {"A": self.sources["A"]}
        for topic in "TU":
            self.tables[topic.lower()] = Stored(dropped=self.dropped)
            self.sources[topic].then(self.tables[topic.lower()].take)
        for number in range(self.chances.randrange(3, 7)):
            self._flow(f"f{number}")

    def _flow(self, name):
        """A flow of some steps, which is written, and which later ones may read."""
        of_table = self.chances.random() < 0.7
        source, step = self.chances.choice(sorted((self.tables if of_table else self.streams).items()))
        steps = []
        for _ in range(self.chances.randrange(1, 4)):
            draw = self.chances.choice(self._OF_TABLES if of_table else self._OF_STREAMS)
            written, step, of_table = draw(self, step, len(steps))
            steps += written
        sink = self.sinks[name.upper()] = Sink()
        step.then(sink.take)
        (self.tables if of_table else self.streams)[name] = step
        self.flows[name] = {"from": source, "steps": steps, "to": name.upper()}

    def _filter(self, step, number):
        least = self.chances.randrange(2, 7)
        made = RowByRow(parent=step, change=lambda _, row: row if row["n"] >= least else None, filters=True)
        step.then(made.take)
        return [{"filter": f"n >= {least}"}], made, True

    def _select(self, step, number):
        made = RowByRow(parent=step, change=lambda _, row: {"n": row["n"], "s": f"{row['s']}!"})
        step.then(made.take)
        return [{"select": {"n": "n", "s": "concat(s, '!')"}}], made, True

    def _join(self, step, number):
        name, other = self.chances.choice(sorted(self.tables.items()))
        made = TableJoin(left=step, right=other, how=self.chances.choice(["inner", "left"]))
        step.then(made.take_left)
        other.then(made.take_right)
        join = {"table": name, "type": made.how, "values": {"other_s": f"{name}.s"}}
        joined = {"select": {"n": "n", "s": "concat(coalesce(s, '-'), coalesce(other_s, '-'))"}}
        return [{"name": f"j{number}", "join": join}, joined], made, True

    def _to_stream(self, step, number):
        made = Source()
        step.then(made.take)
        return ["to_stream", {"with_columns": {"s": "s"}}], made, False

    def _look_up(self, step, number):
        name, table = self.chances.choice(sorted(self.tables.items()))
        made = Lookup(table=table, how=self.chances.choice(["inner", "left"]), dropped=self.dropped)
        step.then(made.take)
        join = {"table": name, "type": made.how, "values": {"other_s": f"{name}.s"}}
        joined = {"select": {"n": "n", "s": "concat(s, coalesce(other_s, '-'))"}}
        return [{"join": join}, joined], made, False

    def _to_table(self, step, number):
        made = Stored(dropped=self.dropped)
        step.then(made.take)
        return [{"to_table": {"emit": "each_update"}}], made, True

    def _aggregate(self, step, number):
        made = Stored(dropped=self.dropped, add=lambda old, new: {"n": (old or {"n": 0})["n"] + 1, "s": new["s"]})
        step.then(made.take)
        values = {"n": "count(*)", "s": "last(s)"}
        return [{"aggregate": {"emit": "each_update", "values": values}}], made, True

    _OF_TABLES = (_filter, _select, _join, _join, _join, _to_stream)
    _OF_STREAMS = (_look_up, _look_up, _to_table, _aggregate)

    def write(self, root):
        """As a project."""
        local = {"spark": {}, "log": {"type": "embedded", "path": "log"}, "state_dir": "state"}
        columns = {"partitions": 1, "key": {"k": "string"}, "value": {"n": "bigint", "s": "string"}}
        tables = {topic.lower(): {"topic": topic, "emit": "each_update"} for topic in "TU"}
        files = {
            "headwater.yml": {"name": "drawn", "version": "1", "profile": "drawn"},
            "profiles.yml": {"drawn": {"target": "local", "targets": {"local": local}}},
            "topics/inputs.yml": {"topics": {name: dict(columns) for name in TOPICS}},
            "topologies/case.yml": {"topology": "case", "tables": tables, "flows": self.flows},
        }
        for name, content in files.items():
            root.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
            root.joinpath(name).write_text(yaml.safe_dump(content, sort_keys=False))

    def takes(self, records):
        """Have the steps take records in the order of a task."""
        queues = {topic: [event for of, event in records if of == topic] for topic in TOPICS}
        while any(queues.values()):
            topic = min((name for name in TOPICS if queues[name]), key=lambda name: queues[name][0].time)
            self.sources[topic].take(queues[topic].pop(0))


def records(seed, count=40):
    """Records of all topics whose time wanders, with deletions and some without a key."""
    chances, made, time = random.Random(seed), [], 0
    for number in range(count):
        time += chances.choice([0, 0, 1, 4])
        key = None if chances.random() < 0.05 else chances.choice("ab")
        row = None if chances.random() < 0.2 else {"n": chances.randrange(9), "s": str(number)}
        made.append((chances.choice(TOPICS), Event(key, row, None, max(0, time - chances.choice([0, 0, 9])))))
    return made


def as_given(event):
    key = None if event.key is None else {"k": event.key}
    return {"partition": 0, "timestamp": event.time, "key": key, "value": event.new, "headers": {}}


@pytest.mark.parametrize(
    ("seed", "epochs"),
    [
        *((seed, EPOCHS[number % len(EPOCHS) :][:1]) for number, seed in enumerate(SEEDS)),
        *(pytest.param(seed, EPOCHS, marks=pytest.mark.soak) for seed in SEEDS),
    ],
)
def test_lookups_meet_what_those_of_kafka_streams_meet_wherever_epochs_end(seed, epochs, tmp_path):
    Drawn(seed).write(tmp_path)
    compiled, given = Compiled(tmp_path, "case"), records(seed)
    for max_records in epochs:
        drawn = Drawn(seed)
        drawn.takes(given)
        with compiled.driven(max_records) as driven:
            read = [name for name in TOPICS if name in driven.surface.read]
            driven.together({name: [as_given(event) for of, event in given if of == name] for name in read})
            for topic, sink in drawn.sinks.items():
                found = [(r.key and r.key["k"], r.value, r.timestamp) for r in driven.written(topic)]
                assert found == sink.written, (topic, max_records)
