"""Topologies in YAML, each beside the same one built of steps that take one record after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.tests.conformance.by_record.facts import VALUES, Taken
from headwater.tests.conformance.by_record.functions import Capped, Greatest
from headwater.tests.conformance.by_record.groups import Grouped, Looked, Regrouped
from headwater.tests.conformance.by_record.nodes import (
    Collapsed,
    Keyed,
    Latest,
    Mapped,
    Node,
    Rows,
    Suppressed,
    ToStream,
    Written,
)
from headwater.tests.conformance.by_record.windows import SessionWindows, SlidingWindows, TimeWindows, Windowed

Built = tuple[Mapping[str, Node], Mapping[str, Written]]
"""Steps that take the records of topics, and topics that are written."""

Steps = tuple[Callable[[], Node], ...]


@dataclass(frozen=True)
class Scenario:
    """A topology in YAML, and how the same is built of single steps."""

    topology: Mapping[str, Any]
    build: Callable[[], Built]


@dataclass(frozen=True)
class Sizes:
    """How long windows are (of sessions the gap), by how much hopping ones advance, and their grace, in ms."""

    size: int = 10
    advance: int = 4
    grace: int = 7

    @property
    def near(self) -> tuple[int, ...]:
        """Times apart at which a window takes a record, or does not by 1 ms."""
        bounds = (self.size, self.grace, self.size + self.grace, 2 * self.size, 2 * self.size + self.grace)
        return tuple(each + by for each in bounds for by in (-1, 0, 1) if each + by >= 0)

    @property
    def longer(self) -> int:
        """A retention with which closed rows are still found, in ms."""
        return 10 * (self.size + self.grace)

    def yaml(self, kind: str) -> Mapping[str, str]:
        """The `window` step."""
        advance = {"advance": f"{self.advance}ms"} if kind == "hopping" else {}
        return {kind: f"{self.size}ms", "grace": f"{self.grace}ms", **advance}

    def windows(self, kind: str, aggregate: Any = None, kept: int | None = None, on_close: bool = False) -> Windowed:
        """The aggregate in such windows, one record after another."""
        aggregate = Taken() if aggregate is None else aggregate
        if kind == "session":
            return SessionWindows(self.size, self.grace, aggregate, kept, on_close)
        if kind == "sliding":
            return SlidingWindows(self.size, self.grace, aggregate, kept, on_close)
        return TimeWindows(
            self.size, self.advance if kind == "hopping" else self.size, self.grace, aggregate, kept, on_close
        )

    def suppressed(self, kind: str) -> Callable[[], Node]:
        """`until: window_closes` behind it."""
        wait = self.size + self.grace if kind == "session" else self.grace
        return lambda: Suppressed(wait, final=True)


KINDS = ("tumbling", "hopping", "session", "sliding")
UNTIL = {"suppress": {"until": "window_closes"}}


def scenarios(sizes: Sizes) -> dict[str, Scenario]:
    """All of them by name."""
    made = dict(_waiting())
    for kind in KINDS:
        made |= {f"{kind}{ending}": each for ending, each in _windowed(sizes, kind)}
        made |= {f"{kind}{ending}": each for ending, each in _behind(sizes, kind)}
        made |= {f"{kind}{ending}": each for ending, each in _by_functions(sizes, kind)}
    return made | {"several windows of one stream": _several(sizes), "branched and merged": _branched(sizes)}


def _windowed(sizes: Sizes, kind: str) -> Iterator[tuple[str, Scenario]]:
    """One aggregate in windows, in all ways in which its rows come out."""
    window = {"window": sizes.yaml(kind)}
    longer = {
        "stores": {"rows": {"type": "session" if kind == "session" else "window", "retention": f"{sizes.longer}ms"}}
    }
    updates, per_epoch, on_close = (aggregate(emit=emit) for emit in ("each_update", "per_epoch", "on_close"))

    def made(**more: Any) -> Callable[[], Node]:
        return lambda: sizes.windows(kind, **more)

    yield "", line([window, updates], made())
    yield ", per epoch", line([window, per_epoch], made(), Collapsed)
    yield ", filtered per epoch", line([window, per_epoch, PASSING], made(), lambda: Rows(passing), Collapsed)
    yield " on close", line([window, on_close], made(on_close=True))
    yield " suppressed", line([window, per_epoch, UNTIL], made(), sizes.suppressed(kind))
    yield (
        " filtered and suppressed",
        line([window, updates, PASSING, UNTIL], made(), lambda: Rows(passing), sizes.suppressed(kind)),
    )
    yield " of which two wait", line([window, per_epoch, WAITS[2]], made(), lambda: Suppressed(9, most=2))
    yield " kept for longer", line([window, aggregate(store="rows")], made(kept=sizes.longer), **longer)
    yield (
        " on close kept for longer",
        line([window, aggregate(store="rows", emit="on_close")], made(kept=sizes.longer, on_close=True), **longer),
    )
    yield (
        " behind a filter and a new key",
        line([{"filter": "v > 5"}, {"key_by": {"k": "g"}}, window, updates], over_five, by_g, made()),
    )


def _behind(sizes: Sizes, kind: str) -> Iterator[tuple[str, Scenario]]:
    """A second aggregate behind one in windows."""
    window = {"window": sizes.yaml(kind)}
    second = aggregate(store="second")
    # Whatever `emit` says, these steps see every update.
    every = aggregate(emit="per_epoch")
    sessions = {"window": {"session": "30ms", "grace": "7ms"}}

    def made(**more: Any) -> Callable[[], Node]:
        return lambda: sizes.windows(kind, **more)

    yield (
        " regrouped",
        line([window, every, {"key_by": {"n": "n"}}, GROUPS], made(), groups(lambda row: row["n"]), **SECOND),
    )
    yield (
        " as a stream in hopping windows",
        line(
            [
                window,
                every,
                "to_stream",
                {"key_by": {"n": "n"}},
                {"select": {"v": "total", "g": "by"}},
                {"window": sizes.yaml("hopping")},
                second,
            ],
            made(),
            ToStream,
            lambda: Keyed(lambda _, row: row and row["n"]),
            lambda: Mapped(lambda key, row: (key, total_and_by(row))),
            lambda: sizes.windows("hopping"),
            stores={"second": {"type": "window"}},
        ),
    )
    for ending, emit, steps, last in (
        (" on close", "on_close", [], ()),
        (" suppressed", "per_epoch", [UNTIL], (sizes.suppressed(kind),)),
    ):
        yield (
            f"{ending}, then in sessions",
            line(
                [window, aggregate(emit=emit), *steps, {"key_by": {"k": "k"}}, SELECTED, sessions, second],
                made(on_close=emit == "on_close"),
                *last,
                lambda: Mapped(lambda key, row: (key[0], total_and_by(row))),
                lambda: SessionWindows(30, 7, Taken()),
                stores={"second": {"type": "session"}},
            ),
        )


def _by_functions(sizes: Sizes, kind: str) -> Iterator[tuple[str, Scenario]]:
    """Classes and functions of the project. A row of a session, or of a sliding window, cannot be deleted."""
    window = {"window": sizes.yaml(kind)}
    stays = kind in ("session", "sliding")
    most = 10**6 if stays else 3
    name = "functions.windows:" + ("Joined" if stays else "Capped")
    by_class = {"function": name, "values": {"every": "array<bigint>"}}
    updates, on_close = ({"aggregate": {**by_class, "emit": emit}} for emit in ("each_update", "on_close"))
    reduce = {"reduce": {"function": "functions.windows:greater", "emit": "each_update"}}
    yield " by a class", line([window, updates], lambda: sizes.windows(kind, Capped(most)))
    yield " by a class on close", line([window, on_close], lambda: sizes.windows(kind, Capped(most), on_close=True))
    yield (
        " by a class suppressed",
        line([window, updates, UNTIL], lambda: sizes.windows(kind, Capped(most)), sizes.suppressed(kind)),
    )
    yield " reduced", line([window, reduce], lambda: sizes.windows(kind, Greatest()))


def _waiting() -> Iterator[tuple[str, Scenario]]:
    """What `suppress` with `for` lets go."""
    table = {"tables": {"t": {"topic": "A"}}}
    by_n = {"key_by": {"n": "cast(n as string)"}}
    for most, step in WAITS.items():
        name = " waits" if most is None else f" of which {most} wait"

        def waiting(most: int | None = most) -> Node:
            return Suppressed(9, most=most)

        yield f"table{name}", line([step], Latest, waiting, start="t", **table)
        yield (
            f"aggregate{name}, filtered behind",
            line([aggregate(), step, PASSING], totals, waiting, lambda: Rows(passing)),
        )
        yield (
            f"aggregate{name}, filtered before",
            line([aggregate(), PASSING, step], totals, lambda: Rows(passing), waiting),
        )
        yield (
            f"aggregate{name}, regrouped behind",
            line([aggregate(), step, by_n, GROUPS], totals, waiting, groups(lambda row: str(row["n"])), **SECOND),
        )
        yield (
            f"aggregate{name}, regrouped before",
            line([aggregate(), by_n, GROUPS, step], totals, groups(lambda row: str(row["n"])), waiting, **SECOND),
        )
        yield f"aggregate{name}, looked up", _looked_up(step, waiting)


def _looked_up(step: Mapping[str, Any], waiting: Callable[[], Node]) -> Scenario:
    """A stream that is joined with what has gone on of a table."""

    def build() -> Built:
        stream, table, out, looked = Node(), Latest(), Written(), Looked("w")
        table.then(waiting(), looked.table)
        stream.then(looked, out)
        return {"A": stream, "B": table}, {"O": out}

    flows = {
        "calm": {"from": "t", "steps": [step]},
        "f": {
            "from": "A",
            "steps": [{"join": {"table": "calm", "type": "left", "values": {"w": "calm.v"}}}],
            "to": "O",
        },
    }
    return Scenario({"tables": {"t": {"topic": "B"}}, "flows": flows}, build)


def _several(sizes: Sizes) -> Scenario:
    def build() -> Built:
        source = Node()
        outs = {name: Written() for name in "OPQR"}
        source.then(over_five(), sizes.windows("tumbling"), outs["O"])
        source.then(sizes.windows("session"), outs["P"])
        source.then(sizes.windows("sliding", on_close=True), outs["Q"])
        source.then(sizes.windows("hopping"), sizes.suppressed("hopping")(), outs["R"])
        return {"A": source}, outs

    flows = {
        "O": [{"filter": "v > 5"}, {"window": sizes.yaml("tumbling")}, aggregate()],
        "P": [{"window": sizes.yaml("session")}, aggregate()],
        "Q": [{"window": sizes.yaml("sliding")}, aggregate(emit="on_close")],
        "R": [{"window": sizes.yaml("hopping")}, aggregate(), UNTIL],
    }
    made = {name.lower(): {"from": "A", "steps": steps, "to": name} for name, steps in flows.items()}
    return Scenario({"flows": made}, build)


def _branched(sizes: Sizes) -> Scenario:
    def is_even(value: Any) -> bool:
        return bool(value and value["v"] is not None and value["v"] % 2 == 0)

    def build() -> Built:
        source, merged = Node(), Node()
        outs = {name: Written() for name in "OP"}
        even = Mapped(lambda key, value: (key, value) if is_even(value) else None)
        odd = Mapped(lambda key, value: None if is_even(value) else (key, value))
        source.then(even, merged)
        source.then(odd, merged)
        even.then(sizes.windows("session"), outs["P"])
        merged.then(sizes.windows("sliding"), outs["O"])
        return {"A": source}, outs

    branch = {"branch": [{"flow": "even", "when": "v % 2 = 0"}, {"flow": "odd"}]}
    flows = {
        "sorted": {"from": "A", "steps": [branch]},
        "o": {"from": ["even", "odd"], "steps": [{"window": sizes.yaml("sliding")}, aggregate()], "to": "O"},
        "p": {"from": "even", "steps": [{"window": sizes.yaml("session")}, aggregate()], "to": "P"},
    }
    return Scenario({"flows": flows}, build)


def line(given: list[Any], *steps: Callable[[], Node], start: str = "A", **more: Any) -> Scenario:
    """A flow of these steps, and of the same ones, from A to O."""

    def build() -> Built:
        source, out = Node(), Written()
        source.then(*(step() for step in steps), out)
        return {"A": source}, {"O": out}

    return Scenario({**more, "flows": {"f": {"from": start, "steps": given, "to": "O"}}}, build)


def aggregate(**more: Any) -> Mapping[str, Any]:
    """All aggregates of `Taken`."""
    return {"aggregate": {"emit": "each_update", "values": VALUES, **more}}


GROUPS = {
    "aggregate": {"store": "second", "emit": "each_update", "values": {"rows": "count(*)", "total": "sum(total)"}}
}
SECOND = {"stores": {"second": {}}}
PASSING = {"filter": "total > 20"}
SELECTED = {"select": {"v": "total", "g": "by"}}
WAITS: Mapping[int | None, Mapping[str, Any]] = {
    None: {"suppress": {"for": "9ms"}},
    2: {"suppress": {"for": "9ms", "max_records": 2, "when_full": "emit"}},
}


def passing(row: Any) -> Any:
    """`PASSING`."""
    return row if (row["total"] or 0) > 20 else None


def total_and_by(row: Any) -> Any:
    """`SELECTED`."""
    return row and {"v": row["total"], "g": row["by"]}


def totals() -> Node:
    """`aggregate()` without windows."""
    return Grouped(Taken())


def groups(group: Callable[[Any], Any]) -> Callable[[], Node]:
    """`GROUPS` by what the function gives."""
    return lambda: Regrouped(group, lambda row: row["total"])


def over_five() -> Node:
    """`filter: v > 5`."""
    return Mapped(lambda key, value: (key, value) if value and (value["v"] or 0) > 5 else None)


def by_g() -> Node:
    """`key_by: {k: g}`."""
    return Keyed(lambda _, value: value and value["g"])
