"""Random topologies of processors, in YAML and as single steps. All rows have a number `n` and a text `s`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from headwater.tests.conformance.by_record.groups import Grouped
from headwater.tests.conformance.by_record.nodes import (
    Change,
    Headers,
    Key,
    Latest,
    Mapped,
    Node,
    ToStream,
    Value,
    Written,
)
from headwater.tests.conformance.by_record.processors import (
    KeyValueStore,
    Processing,
    SessionStore,
    Subtask,
    Task,
    WindowStore,
)

CODE = '''
from headwater import Record


class Doing:
    """Does with each record what the options say, in this order."""

    def __init__(self, name, stores, does, every, flows):
        self.name, self.stores, self.does, self.every, self.flows = name, stores, does, every, flows

    def init(self, context):
        self.context = context
        self.rows, self.windows, self.sessions = (
            context.store(f"{self.stores}_{kind}") for kind in ("rows", "windows", "sessions")
        )
        self.made = {
            every: context.schedule(f"{every}ms", "stream_time", lambda time, every=every: self.tick(every, time))
            for every in self.every
        }

    def process(self, record):
        n = record.timestamp if record.value is None else record.value.n
        for each in self.does:
            getattr(self, each)(record, n)

    def say(self, n, text, record, **more):
        said = record._replace(value={"n": n, "s": f"{self.context.partition}{self.name}{text}"[:60]}, **more)
        if not self.flows:
            self.context.forward(said)
            return
        self.context.forward(said, self.flows[n % len(self.flows)])
        if n % 5 == 0:
            self.context.forward(said, self.flows[0])

    def on(self, record, n):
        if record.value is not None and not self.flows:
            self.context.forward(record)
        else:
            self.say(n, "on", record)

    def count(self, record, n):
        if record.key is None:
            self.say(n, "nobody", record)
            return
        row = self.rows.get(record.key)
        before = 0 if row is None else row.n
        self.rows.put(record.key, {"n": before + 1, "s": str(n)})
        self.say(before, f"{row and row.s},{self.context.stream_time}", record)

    def twice(self, record, n):
        self.say(n, "later", record, timestamp=record.timestamp + 6, headers={**record.headers, "made": str(n)})
        self.say(n + 1, "earlier", record, timestamp=max(0, record.timestamp - 9), headers=None)

    def other_key(self, record, n):
        self.say(n, "key", record, key=None if n % 4 == 3 else {"k": "abc"[n % 3]})

    def null(self, record, n):
        if n % 3 == 0 and not self.flows:
            self.context.forward(record._replace(value=None))

    def absent(self, record, n):
        if record.key is not None:
            found = self.rows.put_if_absent(record.key, {"n": n, "s": "absent"})
            self.say(n, f"absent {found and found.n}", record)

    def gone(self, record, n):
        if record.key is not None and n % 3 == 0:
            found = self.rows.delete(record.key)
            self.rows.put({"k": "a"}, None)
            self.say(n, f"gone {found and found.n}", record)

    def some(self, record, n):
        found = [key.k + str(row.n) for key, row in self.rows.range({"k": "ab"}, {"k": "b"} if n % 2 else None)]
        self.say(n, "".join(found), record)

    def window(self, record, n):
        key, start = record.key or {"k": "none"}, max(0, record.timestamp - n % 20)
        same = self.windows.fetch(key, start)
        self.windows.put(key, None if n % 6 == 5 else {"n": n + (same.n if same else 0), "s": "w"}, start)
        found = self.windows.fetch(key, record.timestamp - 30, record.timestamp + n % 3)
        self.say(n, " ".join(f"{start}:{row.n}" for start, row in found), record)
        self.say(n, "".join(f"{key.k}{start}" for key, start, _ in self.windows.all(reverse=n % 2 == 0)), record)

    def session(self, record, n):
        key, time = record.key or {"k": "none"}, record.timestamp
        found = list(self.sessions.find_sessions(key, time - 8, time + 8))
        for start, end, _ in found:
            self.sessions.remove(key, start, end)
        start, end = min([time, *(each[0] for each in found)]), max([time, *(each[1] for each in found)])
        self.sessions.put(key, {"n": 1 + sum(row.n for _, _, row in found), "s": "s"}, start, end)
        self.say(n, " ".join(f"{start}-{end}:{row.n}" for start, end, row in found), record)
        self.say(n, "".join(f"{key.k}{end}" for key, _, end, _ in self.sessions.all(reverse=n % 2 == 0)), record)

    def alarm(self, record, n):
        running = self.context.schedules(self.ring)
        if n % 5 == 0 and len(running) < 4:
            self.context.schedule("13ms" if n % 2 else "9ms", "stream_time", self.ring)
        elif n % 7 == 0 and running:
            running[n % len(running)].cancel()

    def where(self, record, n):
        self.say(n, f"{self.context.topic}@{self.context.offset}", record)

    def ring(self, time):
        running = self.context.schedules(self.ring)
        self.say(time, f"ring{len(running)}{self.context.topic}", Record({"k": "b"}, None, time))
        if time % 4 == 0 and running:
            running[-1].cancel()

    def tick(self, every, time):
        for key, row in self.rows.all():
            self.say(row.n, f"tick{every}at{self.context.stream_time}", Record(key, None, max(0, time - row.n % 7)))
            if row.n > 2:
                self.rows.delete(key)
        self.say(every, f"tick{every}", Record(None, None, time, {"tick": str(every)}))
        if time % 9 == 0 and len(self.context.schedules(self.ring)) < 3:
            self.context.schedule("17ms", "stream_time", self.ring)
        if time > 150 and every == 11:
            self.made[every].cancel()
'''

DOES = ("on", "count", "twice", "other_key", "null", "absent", "gone", "some", "window", "session", "alarm", "where")
COLUMNS = {"n": "bigint", "s": "string"}
KEY = {"k": "string"}
RETENTION = 40
STORES = {
    "rows": ({"type": "key_value"}, KeyValueStore),
    "windows": ({"type": "window", "retention": f"{RETENTION}ms"}, lambda: WindowStore(RETENTION)),
    "sessions": ({"type": "session", "retention": f"{RETENTION}ms"}, lambda: SessionStore(RETENTION)),
}


class Drawn:
    """A topology as it stands in YAML, and the steps of the same: of the streams A and B, and the table t of T.

    `task`: what reads them, those of one partition. `outputs`: the topics that are written. `rekeyed`: whether it has
    repartition topics. `shared`: whether all processors have the same stores, and only steps on single records between
    them.
    """

    def __init__(self, seed: int, partition: int = 0, rekeyed: bool = True, shared: bool = False) -> None:
        self._chances = random.Random(seed)
        self._shared = shared
        self._draws = [self._process] * 3 + [self._filter, self._select, self._split]
        if shared:
            self._draws += [self._filter, self._explode]
        else:
            self._draws.insert(-1, self._join)
            self._draws += [self._rekeyed] if rekeyed else []
        self._code = ModuleType("doing")
        exec(CODE, vars(self._code))  # the same class as the project's
        self.outputs: dict[str, Written] = {}
        self.flows: dict[str, Any] = {}
        self.stores: dict[str, Any] = {}
        self._made: dict[str, Any] = {}
        self._processors = 0
        self._table = Latest()
        self._rows: dict[Key, Value] = {}
        self.task = Task({"T": self._table, "A": Node(), "B": Node()}, partition)
        self._table.then(_Kept(self._rows))
        self._streams: dict[str, tuple[Node, Task | None]] = {
            name: (self.task.sources[name], self.task) for name in "AB"
        }
        self._flow("f0", ["A", "B"], [self._join])
        for number in range(1, self._chances.randrange(3, 6)):
            self._flow(f"f{number}")

    def steps(self) -> set[Node]:
        """All steps."""
        return set[Node]().union(*(source.steps() for source in self.task.sources.values()))

    def topology(self) -> Mapping[str, Any]:
        """In YAML."""
        tables = {"t": {"topic": "T", "emit": "each_update"}}
        return {"topology": "case", "tables": tables, "stores": self.stores, "flows": self.flows}

    def _flow(self, name: str, sources: Sequence[str] = (), first: Sequence[Callable[..., Any]] = ()) -> None:
        sources = sources or self._sources()
        node, task = Node(), self._streams[sources[0]][1]
        for each in sources:
            self._streams[each][0].then(node)
        steps: list[Any] = []
        for draw in [*first, *self._chances.choices(self._draws, k=self._chances.randrange(1, 4))]:
            made = draw(name, node, task)
            if made is None:
                continue
            written, node, task = made
            steps += written
            if node is None:  # the flow goes on as others
                self.flows[name] = {"from": [*sources], "steps": steps}
                for flow in written[-1]["process"]["flows"]:
                    self._flow(f"{flow}_on", [flow])
                return
        self.flows[name] = {"from": [*sources], "steps": steps, "to": name.upper()}
        self.outputs[name.upper()] = out = Written()
        node.then(out)
        if task is not None:
            self._streams[name] = node, task

    def _sources(self) -> Sequence[str]:
        names = [name for name, (_, task) in self._streams.items() if task is self.task]
        if self._chances.random() < 0.3:
            return sorted(self._chances.sample(names, 2))
        if self._chances.random() < 0.2:
            return [self._chances.choice(list(self._streams))]
        return [self._chances.choice(names)]

    def _filter(self, name: str, node: Node, task: Task) -> Any:
        least = self._chances.randrange(2, 5)
        made = Mapped(lambda key, row: (key, row) if row is not None and row["n"] >= least else None)
        node.then(made)
        return [{"filter": f"n >= {least}"}], made, task

    def _select(self, name: str, node: Node, task: Task) -> Any:
        made = Mapped(lambda key, row: (key, row and {"n": row["n"] + 1, "s": f"{row['s']}!"}))
        node.then(made)
        return [{"select": {"n": "n + 1", "s": "concat(s, '!')"}}], made, task

    def _explode(self, name: str, node: Node, task: Task) -> Any:
        made = _Parts()
        node.then(made)
        parts = [{"filter": "n > 1"}, {"explode": {"part": "array(s, left(s, 4))"}}]
        return [*parts, {"select": {"n": "n", "s": "part"}}], made, task

    def _join(self, name: str, node: Node, task: Task) -> Any:
        if task is not self.task:
            return None
        made = _Joined(self._rows, self._chances.choice(["inner", "left"]))
        node.then(made)
        join = {"join": {"table": "t", "type": made.how, "values": {"other": "t.n"}}}
        shown = {"select": {"n": "n", "s": "concat(s, '+', coalesce(cast(other as string), '-'))"}}
        return [join, shown], made, task

    def _rekeyed(self, name: str, node: Node, task: Task) -> Any:
        """A new key, and an aggregate by it. With a null key nothing is counted."""
        if task is not self.task:
            return None
        keyed, behind = _Rekeyed(), Subtask()
        node.then(keyed)
        keyed.then(behind)
        made = ToStream()
        behind.then(Grouped(_Counted()), made)
        counted = {"aggregate": {"emit": "each_update", "values": {"n": "count(*)", "s": "last(s)"}}}
        return [{"key_by": {"k": "right(s, 1)"}}, counted, "to_stream"], made, behind.task

    def _process(self, name: str, node: Node, task: Task, flows: Sequence[str] = ()) -> Any:
        mine = f"{name}{self._processors}"
        self._processors += 1
        of = "all" if self._shared else mine
        does = [*self._chances.sample(DOES, self._chances.randrange(1, 4))]
        if task is not self.task:
            does = [each for each in does if each != "where"]
        every = self._chances.sample([10, 11, 20, 35], self._chances.randrange(0, 3))
        options = {"name": mine, "stores": of, "does": does, "every": every, "flows": [*flows]}
        self._made = {f"{of}_{kind}": make() for kind, (_, make) in STORES.items()} | self._made
        stores = {f"{of}_{kind}": self._made[f"{of}_{kind}"] for kind in STORES}
        self.stores |= {f"{of}_{kind}": {**said, "key": KEY, "value": COLUMNS} for kind, (said, _) in STORES.items()}
        made = Processing(lambda: self._code.Doing(**options), task, stores, flows)
        node.then(made)
        step: dict[str, Any] = {"function": "functions.doing:Doing", "stores": [*stores], "options": options}
        if not flows:
            return [{"process": step}], made, task
        for flow, out in made.outputs.items():
            self._streams[flow] = out, task
        return [{"process": {**step, "flows": {flow: {} for flow in flows}}}], None, task

    def _split(self, name: str, node: Node, task: Task) -> Any:
        if name.endswith("_on"):
            return None
        return self._process(
            name, node, task, [f"{name}_{each}" for each in ("x", "y", "z")[: self._chances.choice([2, 3])]]
        )


class _Kept(Node):
    """The rows of a table as they are."""

    def __init__(self, rows: dict[Key, Value]) -> None:
        super().__init__()
        self._rows = rows

    def take(self, key: Key, value: Change, time: int, headers: Headers) -> None:
        self._rows[key] = value.new


class _Parts(Node):
    """Two elements of the text, and none of small numbers."""

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        for part in () if value is None or value["n"] <= 1 else (value["s"], value["s"][:4]):
            self.send(key, {"n": value["n"], "s": part}, time, headers)


class _Joined(Node):
    """`KStreamKTableJoin`."""

    def __init__(self, rows: Mapping[Key, Value], how: str) -> None:
        super().__init__()
        self._rows, self.how = rows, how

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        if value is None or (key is None and self.how == "inner"):
            self.dropped["null_value" if value is None else "null_key"] += 1
            return
        row = None if key is None else self._rows.get(key)
        if row is not None or self.how == "left":
            self.send(key, {"n": value["n"], "s": f"{value['s']}+{'-' if row is None else row['n']}"}, time, headers)


class _Rekeyed(Node):
    """By the last letter of the text: null keys are dropped and counted before the topic [HW]."""

    def take(self, key: Key, value: Any, time: int, headers: Headers) -> None:
        made = None if value is None else value["s"][-1:]
        if made is None:
            self.dropped["null_key"] += 1
        else:
            self.send(made, value, time, headers)


class _Counted:
    def initial(self) -> Any:
        return 0, None

    def add(self, state: Any, key: Key, value: Any) -> Any:
        return state[0] + 1, value["s"]

    def merge(self, first: Any, second: Any) -> Any:
        raise NotImplementedError

    def row(self, state: Any) -> Value:
        return {"n": state[0], "s": state[1]} if state[0] else None
