"""docs/python.md: its examples print what the page says."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headwater
from headwater import HeadwaterError, Project
from headwater.cli.commands.init import command as init

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", PAGE, re.DOTALL)


@pytest.mark.spark
def test_examples_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_session: SparkSession
) -> None:
    monkeypatch.chdir(tmp_path)
    init.main(["shop", "--project-dir", "shop"], standalone_mode=False)
    names: dict[str, Any] = {}
    for code, expected in EXAMPLES:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(code, "python.md", "exec"), names)
        assert printed.getvalue() == expected, code


@pytest.mark.parametrize("name", [name for name, of in vars(Project).items() if callable(of) and name[0] != "_"])
def test_page_names_every_method(name: str) -> None:
    assert re.search(rf"`{name}\b|project\.{name}\(|Project\.{name}\(", PAGE)


@pytest.mark.parametrize("option", list(signature(Project).parameters)[1:])
def test_page_names_every_option_of_load(option: str) -> None:
    assert f"`{option}`" in PAGE
    assert option in signature(Project.load).parameters


def test_page_names_every_error_that_the_package_exports() -> None:
    exported = [getattr(headwater, name) for name in headwater.__all__]
    errors = [each.__name__ for each in exported if isinstance(each, type) and issubclass(each, HeadwaterError)]

    assert [name for name in errors if f"`{name}`" not in PAGE] == []
