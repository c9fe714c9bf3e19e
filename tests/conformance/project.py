"""A conformance case as a project that really runs: files in a folder, the embedded log, the tests' Spark session."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from headwater import Project
from headwater.runtime.ir.topology import ExpressionEngine
from headwater.tests.conformance.notation import Token, parse_input, parse_output, token_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """A file of `cases/`: batches of input, the records of each output topic, the number of dropped records.

    `functions` of the content are modules of the project, as text.
    """

    name: str
    content: Mapping[str, Any]

    @classmethod
    def load(cls, name: str) -> Case:
        return cls(name, yaml.safe_load((CASES / f"{name}.yml").read_text()))

    @cached_property
    def batches(self) -> list[list[Token]]:
        return parse_input(self.content["input"])

    @cached_property
    def outputs(self) -> tuple[dict[str, list[Token]], int]:
        return parse_output(self.content["output"])

    @property
    def output_topics(self) -> list[str]:
        sinks = [flow["to"] for flow in self.content["topology"]["flows"].values() if "to" in flow]
        return sorted(topic for to in sinks for topic in ([to] if isinstance(to, str) else to["topics"]))

    def write(self, root: Path, max_records: int = 1000) -> None:
        """The case as a project: topics of one partition with key `k` and value `v`."""
        columns = {"partitions": 1, "key": {"k": "string"}, "value": {"v": self.content["v"]}}
        inputs = sorted({token.topic for batch in self.batches for token in batch})
        local = {
            "spark": {"master": "local[2]"},
            "log": {"type": "embedded", "path": "log"},
            "state_dir": "state",
            "epoch": {"interval": "10ms", "max_records": max_records},
        }
        files = {
            "headwater.yml": {"name": "conformance", "version": "1", "profile": "conformance"},
            "profiles.yml": {"conformance": {"target": "local", "targets": {"local": local}}},
            "topics/inputs.yml": {"topics": {name: dict(columns) for name in inputs}},
            "topologies/case.yml": {"topology": "case", **self.content["topology"]},
        }
        texts = {name: yaml.safe_dump(content, sort_keys=False) for name, content in files.items()}
        texts |= {f"functions/{name}.py": text for name, text in self.content.get("functions", {}).items()}
        for name, text in texts.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run(
        self, root: Path, session: SparkSession, engine: ExpressionEngine = "spark"
    ) -> tuple[dict[str, list[Token]], int]:
        """Feed batch by batch, each processed before the next; the records of each output topic, and the drops."""
        self.write(root)
        dropped: Counter[str] = Counter()
        with Project.load(root, session=session) as project:
            for batch in self.batches:
                self._feed(project, batch)
                results = project.run(until_caught_up=True, engine=engine)
                assert not results.failed, results
                for application in results.applications:
                    dropped.update(application.dropped)
            topics = {name: [*_tokens(project, name)] for name in self.output_topics}
        return {name: tokens for name, tokens in topics.items() if tokens}, dropped.total()

    def failing_record(
        self, root: Path, session: SparkSession, max_records: int, engine: ExpressionEngine = "spark"
    ) -> str:
        """Feed everything and run until a record stops the run: which one, as `topic[partition]@offset`."""
        self.write(root, max_records)
        with Project.load(root, session=session) as project:
            for batch in self.batches:
                self._feed(project, batch)
            results = project.run(until_caught_up=True, check=False, engine=engine)
            (application,) = results.applications
        found = re.search(r"record (\S+) cannot be processed", application.error or "")
        return found[1] if found else ""

    def _feed(self, project: Project, batch: Sequence[Token]) -> None:
        for topic, tokens in groupby(sorted(batch, key=lambda token: token.topic), key=lambda token: token.topic):
            project.append(topic, [self.record(token) for token in tokens])

    def record(self, token: Token) -> dict[str, Any]:
        """A token in the form that `Project.append` takes."""
        number = self.content["v"] == "bigint"
        value = None if token.value is None else {"v": int(token.value) if number else token.value}
        key = None if token.key is None else {"k": token.key}
        return {"partition": 0, "timestamp": token.timestamp, "key": key, "value": value, "headers": {}}


def _tokens(project: Project, topic: str) -> Iterator[Token]:
    for record in project.read(topic):
        yield token_of(topic, record.key, record.value, record.timestamp)
