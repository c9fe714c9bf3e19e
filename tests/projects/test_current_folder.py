"""A project's files take the place of no package: a `lmdb.py` beside headwater.yml is a file like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli.commands.init import command as init

NAMES = ("lmdb", "click", "jinja2", "yaml", "pyarrow", "msgpack", "pandas", "colorsys", "typing_extensions")
"""Modules that Headwater or a function of the project imports."""

PLUGIN = """\
import shared_names
from headwater.plugins import hookimpl

@hookimpl
def headwater_register_logs(register):
    register(shared_names.LOG, object)
"""

SEED = """\
import colorsys
from functions.rows import rows

def orders():
    from functions.later import PRODUCT
    assert colorsys.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
    return rows(PRODUCT)
"""

ROWS = """\
def rows(product):
    when = "2024-05-01T08:00:00Z"
    return [{"order_id": 1, "product": product, "quantity": 2, "price": 4.5, "ordered_at": when}]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project in which each of these modules writes down that it was imported."""
    root = tmp_path / "shop"
    init.main(["shop", "--project-dir", str(root)], standalone_mode=False)
    for name in NAMES:
        (root / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\n")
    return root


def headwater(root: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", *arguments],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (root.parent / "imported").exists(), (root.parent / "imported").read_text()
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_plugin(root: Path) -> None:
    (root / "plugins").mkdir()
    (root / "plugins" / "mine.py").write_text(PLUGIN)
    (root / "shared_names.py").write_text("LOG = 'ours'\n")
    project = root / "headwater.yml"
    project.write_text(project.read_text() + "plugins: [plugins.mine]\n")


def test_command_imports_no_package_from_the_current_folder(shop: Path) -> None:
    assert headwater(shop, "parse").startswith("shop: ")
    assert "1 passed" in headwater(shop, "test")


def test_plugin_of_the_project_finds_its_modules_and_others_find_their_packages(shop: Path) -> None:
    with_plugin(shop)

    assert "1 passed" in headwater(shop, "test")


def test_function_of_a_seed_finds_its_modules_and_the_packages_of_python(shop: Path) -> None:
    (shop / "functions").mkdir()
    for name, text in {"seeds": SEED, "rows": ROWS, "later": "PRODUCT = 'tea'\n"}.items():
        (shop / "functions" / f"{name}.py").write_text(text)
    topic = shop / "topics" / "orders.yml"
    topic.write_text(topic.read_text().replace("path: seeds/orders.csv", "function: functions.seeds:orders"))

    headwater(shop, "seed")

    assert "product=tea" in headwater(shop, "read", "orders")


@pytest.mark.spark
def test_worker_of_spark_imports_no_package_from_the_current_folder(shop: Path) -> None:
    with_plugin(shop)

    headwater(shop, "build", "--engine", "spark")

    assert headwater(shop, "read", "daily_sales", "--format", "json")
