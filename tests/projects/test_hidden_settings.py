"""Each setting of `profiles.yml` takes a value from the environment, right or wrong: no message has it, and no file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from headwater.cli.main import main
from headwater.tests.projects.profile_settings import SCHEMA, Place, settings, with_value

PLACES = dict(settings())

PLAIN, BESIDE, NUMBER = "{{ env_var('MARKED') }}", "pre{{ env_var('MARKED') }}", "{{ env_var('MARKED') | int }}"
TRIED = (
    ("hushmark-31847", PLAIN),
    ("hushmark-31847", BESIDE),
    ("hushmark-31847", NUMBER),
    ("hushmark-31847" * 20, PLAIN),
    ("48712391ms", PLAIN),
    ("79379113", PLAIN),
    ("79379113", NUMBER),
)
SOME = (0, 1, 3)
"""Steps to those that `make test` tries at a place: no two of the next seven places have the same three, and each pair
of values occurs at one of them. `make soak` tries all of them at each place.
"""

ADDRESSES = "bootstrap_servers"
"""The setting that messages show."""

SHOWN = ("hushmark", "48712391", "48,712,391", "48_712_391", "79379113", "79,379,113", "79_379_113")

COMMANDS = (
    "parse --format json",
    "compile",
    "seed",
    "plan --format json",
    "log ls",
    "debug profile log state",
    "clean --state",
)


CLUSTER = {
    "bootstrap_servers": "localhost:9092",
    "security": {
        "protocol": "sasl_ssl",
        "mechanism": "PLAIN",
        "username": "a",
        "password": "b",
        "certificate": "-----BEGIN CERTIFICATE-----",
        "key": "-----BEGIN PRIVATE KEY-----",
    },
}


def _target(place: Place, root: Path) -> dict[str, Any]:
    """A target that is valid without the setting, and that the setting fits into."""
    log: dict[str, Any] = {"type": "embedded", "path": ".headwater/log"}
    if place[:2] in (("log", "name"), ("log", "options")):
        log = {"name": "embedded", "options": {"path": ".headwater/log"}}
    elif place == ("log", "endpoint"):
        log = {"type": "object_store", "uri": "s3://bucket/x", "access_key_id": "a", "secret_access_key": "b"}
    elif place[0] == "log" and len(place) == 2 and place[1] not in ("path", "description"):
        log = {"type": "object_store", "uri": f"file://{root}/bucket"}
    lineage = {"url": "http://127.0.0.1:1"} if place[0] == "lineage" and place[1] != "file" else {}
    more = {"lineage": lineage} if lineage else {"kafka": {"free": dict(CLUSTER)}} if place[0] == "kafka" else {}
    return {"log": log, "state_dir": ".headwater/state"} | more


def _merged(one: Any, other: Any) -> Any:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other
    return {**one, **{key: _merged(one.get(key), value) for key, value in other.items()}}


def _run(command: str, root: Path, marked: str) -> str:
    """All that a command prints, and what would be printed of an error that it does not explain."""
    result = CliRunner().invoke(main, [*command.split(), "--project-dir", str(root)], env={"MARKED": marked})
    unexplained = result.exception if not isinstance(result.exception, SystemExit) else None
    return result.output + "".join(traceback.format_exception(unexplained) if unexplained else ())


def _tries() -> Iterator[Any]:
    """Each place with the values that are tried there."""
    for number, place in enumerate(place for place in PLACES if place[-1] != ADDRESSES):
        name = ".".join(map(str, place))
        yield pytest.param(place, tuple(TRIED[(number + step) % len(TRIED)] for step in SOME), id=name)
        yield pytest.param(place, TRIED, id=f"{name}-all", marks=pytest.mark.soak)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project, to be copied."""
    root = tmp_path_factory.mktemp("new") / "shop"
    CliRunner().invoke(main, ["init", "shop", "--project-dir", str(root)])
    return root


@pytest.mark.parametrize(("place", "tried"), [*_tries()])
def test_value_of_the_environment_is_in_no_message_and_in_no_file(
    place: Place, tried: tuple[tuple[str, str], ...], shop: Path, tmp_path: Path
) -> None:
    leaks = []
    for number, (marked, form) in enumerate(tried):
        root = tmp_path / str(number) / "shop"
        shutil.copytree(shop, root)
        target = _merged(_target(place, root), with_value(place, form))
        (root / "profiles.yml").write_text(yaml.safe_dump({"shop": {"target": "local", "targets": {"local": target}}}))
        if place[0] == "kafka":
            topics = root / "topics" / "orders.yml"
            topics.write_text(
                topics.read_text().replace("    partitions: 2\n", "    partitions: 2\n    kafka: {}\n", 1)
            )
        printed = {command: _run(command, root, marked) for command in COMMANDS}

        leaks += [(command, text) for command, text in printed.items() if any(each in text for each in SHOWN)]
        files = [path for path in root.rglob("*") if path.is_file()]
        contents = {path: path.read_bytes().decode("latin-1") for path in files}
        leaks += [(str(path), form) for path, text in contents.items() if any(each in text for each in SHOWN)]
    assert leaks == []


def test_every_setting_of_the_schema_is_tried() -> None:
    assert {place[0] for place in PLACES} == set(SCHEMA["definitions"]["target"]["properties"])
    assert ("log", "secret_access_key") in PLACES
    assert ("lineage", "api_key") in PLACES


FAULTY = """\
from headwater.plugins import hookimpl

class Broken:
    def __init__(self, path):
        self.path = path

    def __getattr__(self, name):
        raise KeyError(f"no {name} at {self.path}")

@hookimpl
def headwater_register_logs(register):
    register("broken", Broken, {"type": "object"})
"""


def test_traceback_of_an_error_that_nobody_explains_has_no_value_of_the_environment(shop: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(shop, tmp_path / "shop"))
    (root / "plugins").mkdir()
    (root / "plugins" / "faulty.py").write_text(FAULTY)
    (root / "headwater.yml").write_text((root / "headwater.yml").read_text() + "plugins: [plugins.faulty]\n")
    target = {"log": {"name": "broken", "options": {"path": "{{ env_var('MARKED') }}"}}}
    (root / "profiles.yml").write_text(yaml.safe_dump({"shop": {"target": "local", "targets": {"local": target}}}))

    done = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main", "log", "ls"],
        cwd=root,
        env={**os.environ, "MARKED": "hushmark-31847"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "***" in done.stderr
    assert "hushmark" not in done.stdout + done.stderr
