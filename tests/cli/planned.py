"""A small project with a log, built in this process without Spark, for plans of what would change."""

from __future__ import annotations

import re
import shlex
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headwater import Project
from headwater.api import runs
from headwater.cli.main import main
from headwater.compiler.pipeline import compile_project
from headwater.runtime.cluster.local import LocalCluster
from headwater.runtime.cluster.spark.on_demand import SparkOnDemand
from headwater.runtime.driver.events import Observer
from headwater.runtime.driver.results import ApplicationResult
from headwater.runtime.driver.runs import run_topologies

FILES: Mapping[str, str] = {
    "headwater.yml": 'name: shop\nversion: "1.0"\nprofile: shop\n',
    "profiles.yml": """
shop:
  target: local
  targets:
    local:
      spark: {master: "local[2]"}
      log: {type: embedded, path: .headwater/log}
      state_dir: .headwater/state
""",
    "seeds/orders.csv": """order_id,product,quantity,price,ordered_at
1,coffee,2,3.5,2024-05-01T08:00:00Z
2,tea,1,4.5,2024-05-01T09:30:00Z
3,coffee,4,3.5,2024-05-02T08:15:00Z
4,mug,0,9.9,2024-05-02T11:00:00Z
5,tea,3,4.5,2024-05-03T10:20:00Z
""",
    "topics/topics.yml": """
topics:
  orders:
    partitions: 2
    key: {order_id: bigint}
    value: {product: string, quantity: int, price: double, ordered_at: timestamp}
    timestamp: ordered_at
    seed: {path: seeds/orders.csv}
  returns:
    partitions: 2
    key: {order_id: bigint}
    value: {product: string, quantity: int}
""",
    "topologies/sales.yml": """
topology: sales
stores:
  totals: {type: window, retention: 30d}
flows:
  wanted:
    from: orders
    steps:
      - filter: quantity >= 1
      - key_by: {product: product}
      - window: {tumbling: 1d, grace: 1h}
      - aggregate:
          store: totals
          values:
            orders: count(*)
            sold: sum(quantity)
    to: daily
""",
    "topologies/best.yml": """
topology: best
flows:
  best:
    from: daily
    steps:
      - filter: sold >= 3
    to: best_days
""",
}

_TYPES = {
    "count(*)": "bigint",
    "sum(quantity)": "bigint",
    "sum(boxes)": "bigint",
    "max(quantity)": "int",
    "min(price)": "double",
}


class Judge:
    """What Spark would say of the expressions of this project."""

    def analyze(self, requests: Sequence[tuple[str, str]]) -> list[str]:
        return [_TYPES.get(text, "boolean" if re.search("[<>=]", text) else "double") for text, _ in requests]


@dataclass
class Shop:
    """The project in `root`."""

    root: Path

    @classmethod
    def made(cls, root: Path, files: Mapping[str, str] = FILES) -> Shop:
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.lstrip("\n"))
        return cls(root)

    @classmethod
    def built(cls, folder: Path, files: Mapping[str, str] = FILES) -> Shop:
        """A project that has been built."""
        shop = cls.made(folder, files)
        topologies = sum(name.startswith("topologies/") for name in files)
        assert [each.status for each in shop.build()] == ["caught_up"] * topologies
        return shop

    def copied(self, folder: Path) -> Shop:
        """The project in another folder, with all that it has committed."""
        return Shop(Path(shutil.copytree(self.root, folder)))

    def edit(self, name: str, old: str, new: str) -> Shop:
        """Change a file. What is to be replaced must be there."""
        path = self.root / name
        text = path.read_text()
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new))
        return self

    def judge(self) -> Shop:
        """Have the types of all expressions known, as after `headwater compile`."""
        checked = compile_project(self.root, analyzer=Judge())
        assert not checked.diagnostics.has_errors, [str(each) for each in checked.diagnostics]
        return self

    def project(self, *select: str) -> Project:
        return Project(self.root, select=select)

    def build(self) -> tuple[ApplicationResult, ...]:
        """Seed, and run until caught up."""
        self.judge().project().seed()
        return self.run()

    def run(
        self,
        *select: str,
        observer: Observer | None = None,
        stop: threading.Event | None = None,
        go_on: bool = False,
    ) -> tuple[ApplicationResult, ...]:
        """Run until caught up, with all expressions in tasks."""
        project = self.judge().project(*select)
        topologies = project._code.topologies()
        settings, owned = replace(project.settings(), go_on=go_on), project._files.applications()
        results = run_topologies(
            topologies, settings, LocalCluster(), until_caught_up=True, observer=observer, owned=owned, stop=stop
        )
        return results.applications

    def headwater(self, *arguments: str) -> Result:
        """What a command prints."""
        return CliRunner().invoke(main, [*arguments, "--project-dir", str(self.root)])

    def typed(self, command: str) -> Result:
        """What comes of a command that is typed in. Topologies run in this process; a question is answered with yes."""
        program, name, *rest = shlex.split(command)
        assert program == "headwater"
        self.judge()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(runs, "SparkCluster", lambda *_, **__: LocalCluster())
            patched.setattr(SparkOnDemand, "session", lambda _: None)
            until = ["--until-caught-up"] if name == "run" else []
            arguments = [name, "--project-dir", str(self.root), *rest, *until]
            return CliRunner().invoke(main, arguments, input="y\n")
