"""A project of which anything changes from one run to the next, as something that may be killed: see `program.py`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headwater.compiler.language.type_checker import UntypedAnalyzer
from headwater.compiler.pipeline import compile_project
from headwater.tests.projects.changes.deployed import Deployed

PROFILE = """
shop:
  target: local
  targets:
    local:
      spark: {{master: "local[2]"}}
      log: {{type: embedded, path: .headwater/log}}
      state_dir: .headwater/state
      clients: {clients}
      epoch: {{interval: 1ms, max_records: {max_records}}}
"""
TOPICS = """
topics:
  orders:
    partitions: 2
    key: {{order_id: bigint}}
    value: {{{value}}}
  totals:
    partitions: {partitions}
    key: {{{key}: string}}
    windowed: {windowed}
    value: {{{totals}}}
"""
SALES = """
topology: {topology}
was: {topology_was}
stores:
  {store}: {{type: {kind}, backend: {backend}, was: {store_was}}}
flows:
  {flow}:
    was: {flow_was}
    from: orders
    steps:
      - filter: quantity >= {least}
      - key_by: {{{key}: {key}}}
{window}
      - aggregate:
          store: {store}
          emit: each_update
          values: {{{aggregates}}}
    to: totals
"""
READERS = {
    "best": "topology: best\nflows:\n  good:\n    from: totals\n    steps:\n      - filter: sold >= 3\n    to: best\n",
    "copies": "topology: copies\nflows:\n  copied:\n    from: orders\n    to: kept\n",
    "counts": """
topology: counts
flows:
  counted:
    from: best
    steps:
      - aggregate:
          emit: each_update
          values:
            times: count(*)
    to: times
""",
}
AGGREGATES = {"most": "max(quantity)", "few": "min(quantity)"}
HOUR = 3_600_000


@dataclass(frozen=True)
class Defined:
    """The project as it is defined. `names`: how often the topology, the store and the flow were renamed so far."""

    names: Mapping[str, int]
    more: tuple[str, ...] = ()
    factor: int = 1
    least: int = 1
    hours: int = 24
    key: str = "product"
    backend: str = "lmdb"
    noted: bool = False
    wide: bool = False
    partitions: int = 2
    readers: tuple[str, ...] = ("best",)
    max_records: int = 5
    clients: int = 1

    def name(self, what: str) -> str:
        return f"{what}{self.names[what]}"

    def former(self, what: str) -> str:
        return f"[{', '.join(f'{what}{number}' for number in reversed(range(self.names[what])))}]"

    def write(self, root: Path) -> None:
        """The files of the project."""
        quantity = "bigint" if self.wide else "int"
        totals = {"orders": "bigint", "sold": "bigint", **dict.fromkeys(self.more, quantity)}
        aggregates = {"orders": "count(*)", "sold": f"sum(quantity * {self.factor})"}
        aggregates |= {name: AGGREGATES[name] for name in self.more}
        value = f"product: string, buyer: string, quantity: {quantity}{', note: string' if self.noted else ''}"
        named = {
            name: text
            for what in ("topology", "store", "flow")
            for name, text in ((what, self.name(what)), (f"{what}_was", self.former(what)))
        }
        files = {
            "headwater.yml": 'name: shop\nversion: "1.0"\nprofile: shop\n',
            "profiles.yml": PROFILE.format(clients=self.clients, max_records=self.max_records),
            "topics/topics.yml": TOPICS.format(
                value=value,
                partitions=self.partitions,
                key=self.key,
                windowed=str(bool(self.hours)).lower(),
                totals=_pairs(totals),
            ),
            "topologies/sales.yml": SALES.format(
                **named,
                kind="window" if self.hours else "key_value",
                backend=self.backend,
                least=self.least,
                key=self.key,
                window=f"      - window: {{tumbling: {self.hours}h, grace: 1h}}" if self.hours else "",
                aggregates=_pairs(aggregates),
            ).replace(", was: []", ""),
            **{f"topologies/{name}.yml": text for name, text in READERS.items() if name in self.readers},
        }
        for old in root.glob("topologies/*.yml"):
            old.unlink()
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(line for line in text.splitlines() if line.strip() not in ("", "was: []")) + "\n")


def _pairs(of: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {text}" for name, text in of.items())


FIRST = Defined({"topology": 0, "store": 0, "flow": 0})


def changed(was: Defined, chances: random.Random) -> Defined:
    """The project after one random change that it can go through."""

    def renamed(what: str) -> Defined:
        return replace(was, names={**was.names, what: was.names[what] + 1})

    def toggled(of: tuple[str, ...], one: str) -> tuple[str, ...]:
        return tuple(each for each in of if each != one) if one in of else (*of, one)

    def other(now: Any, *choices: Any) -> Any:
        return chances.choice([each for each in choices if each != now])

    changes: dict[str, Callable[[], Defined]] = {
        "topology renamed": lambda: renamed("topology"),
        "store renamed": lambda: renamed("store"),
        "flow renamed": lambda: renamed("flow"),
        "aggregate": lambda: replace(was, more=toggled(was.more, chances.choice(list(AGGREGATES)))),
        "expression": lambda: replace(was, factor=other(was.factor, 1, 2, 3)),
        "filter": lambda: replace(was, least=other(was.least, 1, 2, 3)),
        "window": lambda: replace(was, hours=other(was.hours, 0, 12, 24, 48)),
        "key": lambda: replace(was, key=other(was.key, "product", "buyer")),
        "backend": lambda: replace(was, backend=other(was.backend, "lmdb", "rocksdb")),
        "column": lambda: replace(was, noted=not was.noted),
        "wider column": lambda: replace(was, wide=True),
        "partitions": lambda: replace(was, partitions=other(was.partitions, 2, 3, 4)),
        "reader": lambda: replace(was, readers=toggled(was.readers, "copies")),
        "readers": lambda: replace(was, readers=other(was.readers, ("best",), ("best", "copies", "counts"))),
        "settings": lambda: replace(
            was, max_records=other(was.max_records, 1, 5, 100), clients=other(was.clients, 1, 2)
        ),
    }
    while (now := changes[chances.choice(list(changes))]()) == was:
        pass
    return now


def project(path: Path) -> Deployed:
    """The project in a folder, with the types of its expressions known."""
    checked = compile_project(path, analyzer=UntypedAnalyzer())
    assert not checked.diagnostics.has_errors, [str(each) for each in checked.diagnostics]
    return Deployed(path, {})


def run(path: Path) -> dict[str, Any]:
    """Until it is caught up."""
    return {"ended": [[each.status, each.error] for each in project(path).run()]}
