"""Plugins of tests: a project's modules, written to a folder that is a project."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from headwater.plugins.manager import PluginManager

Load = Callable[..., PluginManager]


@pytest.fixture
def clean_modules() -> Iterator[None]:
    """Leaves the import system as it was."""
    modules, path = dict(sys.modules), list(sys.path)
    yield
    for name in sys.modules.keys() - modules.keys():
        del sys.modules[name]
    sys.path[:] = path


@pytest.fixture
def load(tmp_path: Path, clean_modules: None) -> Load:
    """A PluginManager of a project with these modules (`{"plugins.mine": code}`), all of which it names."""

    def make(modules: Mapping[str, str], *, directory: str = "project", block: tuple[str, ...] = ()) -> PluginManager:
        root = tmp_path / directory
        root.mkdir(exist_ok=True)
        (root / "headwater.yml").write_text("name: test\n")
        for name, code in modules.items():
            file = root.joinpath(*name.split(".")).with_suffix(".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("from headwater.plugins import hookimpl\n" + dedent(code))
        return PluginManager(root, modules, block, installed=False)

    return make
