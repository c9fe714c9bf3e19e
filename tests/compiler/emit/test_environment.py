"""What a profile takes from the environment is in no file that the compiler writes: the runner looks it up."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest

from headwater.cli.commands.init import command as init
from headwater.compiler.diagnostics import Diagnostics
from headwater.compiler.emit.job import render_job
from headwater.compiler.emit.runner import render_runner
from headwater.compiler.reading.files import DurationFromEnvironment, FromEnvironment, Lookup, NumberFromEnvironment
from headwater.compiler.reading.load import load_project
from headwater.compiler.target_settings import settings_of
from headwater.compiler.topology.graph import TopologyGraph
from headwater.runtime.generated_code import load_runner
from headwater.runtime.ir.topology import Assignment, PluginRef

PROFILES = """\
shop:
  target: local
  targets:
    local:
      spark:
        master: "local[2]"
        hadoop.fs.s3a.secret.key: "{{ env_var('S3_SECRET') }}"
        hadoop.fs.s3a.endpoint: "https://{{ env_var('HOST', 'localhost') }}:{{ var('port', 9000) }}"
      log:
        type: embedded
        path: "{{ env_var('DISK') }}/log"
      state_dir: "{{ env_var('DISK') }}/state"
      clients: "{{ env_var('CLIENTS') | int }}"
      epoch:
        interval: "{{ env_var('INTERVAL') }}"
        deadline: 45s
"""
WHEN_COMPILED = {"S3_SECRET": "hush", "DISK": "/hush", "CLIENTS": "3", "HOST": "hush.example"} | {
    "INTERVAL": "7927ms",
}
WHEN_RUN = {"S3_SECRET": "other", "DISK": "disk", "CLIENTS": "2", "INTERVAL": "3s"}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    init.main(["shop", "--project-dir", str(root)], standalone_mode=False)
    (root / "profiles.yml").write_text(PROFILES, "utf-8")
    return root


@pytest.fixture
def runner(shop: Path) -> Path:
    diagnostics = Diagnostics()
    loaded = load_project(shop, diagnostics, environment=WHEN_COMPILED)
    assert not list(diagnostics)
    graph = TopologyGraph(
        "shop", "sales", "1.0", "", "topologies/sales.yml", (), (), (), (), Assignment(), PluginRef("changelog")
    )
    path = shop / "target" / "sales" / "runner.py"
    path.parent.mkdir(parents=True)
    path.write_text(render_runner(graph, settings_of(loaded)), "utf-8")
    (path.parent / "job.py").write_text(render_job(graph))
    return path


def test_value_of_the_environment_is_not_written_down(runner: Path) -> None:
    text = runner.read_text("utf-8")
    for value in ("hush", "7927", "7_927"):
        assert value not in text
    assert 'env_var("S3_SECRET", at="profiles.yml:7")' in text


def test_runner_looks_the_environment_up_when_it_runs(
    runner: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in WHEN_RUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HOST", raising=False)

    settings = load_runner(runner).settings

    assert settings.spark["hadoop.fs.s3a.secret.key"] == "other"
    assert settings.spark["hadoop.fs.s3a.endpoint"] == "https://localhost:9000"
    assert settings.log.options["path"] == str(shop / "disk" / "log")
    assert settings.state_dir == str(shop / "disk" / "state")
    assert settings.clients == 2
    assert settings.epoch_interval_ms == 3_000
    assert settings.deadline_ms == 45_000


@pytest.mark.parametrize(("name", "needed"), [("CLIENTS", "a whole number"), ("INTERVAL", "a duration")])
def test_wrong_value_of_the_environment_when_it_runs_is_told_with_its_line_and_not_shown(
    runner: Path, name: str, needed: str
) -> None:
    ended = subprocess.run(
        [sys.executable, str(runner)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **WHEN_RUN, name: "hush"},
    )

    line = next(number for number, text in enumerate(PROFILES.splitlines(), 1) if f"'{name}'" in text)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: profiles.yml:{line}: what the environment gives is not {needed}")
    assert "hush" not in ended.stderr


def test_runner_without_the_variable_names_it_and_its_line(runner: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in WHEN_COMPILED}
    ended = subprocess.run(
        [sys.executable, str(runner)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {name: value for name, value in WHEN_RUN.items() if name != "S3_SECRET"},
    )
    assert ended.returncode != 0
    assert ended.stderr.startswith("error: profiles.yml:7: the environment variable S3_SECRET is not set")
    assert "Traceback" not in ended.stderr


def test_generated_runner_is_as_the_formatter_leaves_it(runner: Path) -> None:
    before = runner.read_text("utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", "--line-length", "100", str(runner)], check=True)
    assert runner.read_text("utf-8") == before


def test_wrong_value_of_the_environment_is_not_shown(shop: Path) -> None:
    (shop / "profiles.yml").write_text(PROFILES.replace("{{ env_var('CLIENTS') | int }}", "{{ env_var('CLIENTS') }}"))
    diagnostics = Diagnostics()

    load_project(shop, diagnostics, environment=WHEN_COMPILED | {"CLIENTS": "hush"})

    (found,) = diagnostics
    assert found.code == "HW203"
    assert "hush" not in f"{found.message} {found.hint}"


@pytest.mark.parametrize(
    "value",
    [
        FromEnvironment("a/b", ("a/", Lookup("B")), "p.yml:3"),
        NumberFromEnvironment(3, Lookup("N", "1"), "p.yml:4"),
        DurationFromEnvironment(3_000, FromEnvironment("3s", (Lookup("S"), "s"), "p.yml:5")),
    ],
)
def test_value_of_the_environment_that_is_copied_or_pickled_keeps_where_it_comes_from(value):
    for again in (deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (again, type(again), vars(again)) == (value, type(value), vars(value))
