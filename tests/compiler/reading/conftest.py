"""What the tests of reading use: YAML in, tree and findings out; a project from a dictionary of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from headwater.compiler.diagnostics import Diagnostics
from headwater.compiler.reading.source import MappingNode, Node, ScalarNode, SourceFile
from headwater.compiler.reading.yaml_loader import read_yaml

PROJECT = {
    "headwater.yml": 'name: example\nversion: "1.0"\n',
    "profiles.yml": "example:\n  target: local\n  targets:\n    local: {clients: 1}\n    large: {clients: 4}\n",
}


@dataclass(frozen=True)
class Read:
    """A file that was read: its tree, and what was found."""

    node: Node | None
    diagnostics: Diagnostics

    @property
    def codes(self) -> list[str]:
        return [found.code for found in self.diagnostics]

    def scalar(self, key: str) -> ScalarNode:
        assert isinstance(self.node, MappingNode)
        found = self.node[key]
        assert isinstance(found, ScalarNode)
        return found


@pytest.fixture
def read() -> Callable[[str], Read]:
    def read_text(text: str) -> Read:
        diagnostics = Diagnostics()
        return Read(read_yaml(SourceFile("file.yml", text), diagnostics), diagnostics)

    return read_text


@pytest.fixture
def project(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """Writes a project: the given files over a small valid one; None leaves a file out."""

    def write(files: dict[str, str | None]) -> Path:
        root = tmp_path / "project"
        for name, content in (PROJECT | files).items():
            if content is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(dedent(content), encoding="utf-8")
        return root

    return write
