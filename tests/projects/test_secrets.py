"""A secret in every place of a profile that `env_var` may stand in: none of it is in a file, or in what is printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.commands.init import command as init
from headwater.cli.main import main

pytestmark = pytest.mark.spark

SECRETS = {
    "SOME_KEY": "hushkey",
    "INTERVAL": "48712391ms",
    "MAX_RECORDS": "79379113",
    "DESCRIPTION": "hushdescription",
    "META": "hushmeta",
    "TAG": "hushtag",
    "LINEAGE_KEY": "hushlineage",
    "LINEAGE_PATH": "hushendpoint",
}
PATHS = {"LOG_PATH": "elsewhere", "STATE_DIR": "somewhere"}
"""What a path is made of shows in the file system; neither `target/` nor messages hold it."""

SHOWN = re.compile(r"hush|(?<!\d)(48[_,]?712[_,]?391|79[_,]?379[_,]?113)(?!\d)")
"""A secret, as it is given or as a number: one that no time, size or checksum in these files has by chance."""

PROFILES = """\
shop:
  target: local
  targets:
    local:
      description: "{{ env_var('DESCRIPTION') }}"
      tags: ["{{ env_var('TAG') }}"]
      meta:
        owner: "{{ env_var('META') }}"
      spark:
        master: "local[2]"
        some.key: "at {{ env_var('SOME_KEY') }}"
        hadoop.secret.key: "{{ env_var('SOME_KEY') }}"
        eventLog.enabled: true
        eventLog.compress: false
        eventLog.dir: "events"
      log:
        type: embedded
        path: "{{ env_var('LOG_PATH') }}/log"
      state_dir: "{{ env_var('STATE_DIR') }}/state"
      lineage:
        url: "http://127.0.0.1:1/{{ env_var('LINEAGE_PATH') }}"
        api_key: "{{ env_var('LINEAGE_KEY') }}"
      clients: "{{ env_var('CLIENTS') | int }}"
      epoch:
        interval: "{{ env_var('INTERVAL') }}"
        max_records: "{{ env_var('MAX_RECORDS') | int }}"
"""


def headwater(root: Path, *arguments: str) -> str:
    """What a command prints. Its temporary files are in a folder beside the project, which it empties.

    Those that start Spark are processes of their own.
    """
    temporary = root.parent / "temporary"
    if arguments[0] in ("build", "run", "debug"):
        done = subprocess.run(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            env={**os.environ, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            check=False,
        )
        code, printed = done.returncode, done.stdout + done.stderr
    else:
        called = CliRunner().invoke(main, arguments)
        code, printed = called.exit_code, called.output
    assert code == 0, printed
    assert not list(temporary.glob("**/*.properties")), "a file with settings is left"
    return printed


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the secrets in the environment, and their folder for temporary files."""
    for name, value in {**SECRETS, **PATHS, "CLIENTS": "1"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


@pytest.mark.usefixtures("secrets")
def test_secret_of_a_profile_is_in_no_file_and_in_nothing_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "shop"
    init.main(["shop", "--project-dir", str(root)], standalone_mode=False)
    monkeypatch.chdir(root)
    (root / "events").mkdir()
    (root / "profiles.yml").write_text(PROFILES.replace('"events"', f"{root / 'events'}"))

    printed = {
        command: headwater(root, *command.split())
        for command in (
            "parse",
            "build --log-format json --trace trace.json",
            "run --until-caught-up",
            "describe",
            "debug",
            "ls --format json",
            "simulate",
            "read daily_sales",
            "tasks --format json",
            "log ls",
            "log verify",
            "clean --state --yes",
        )
    }

    assert [(command, text) for command, text in printed.items() if SHOWN.search(text)] == []
    assert [(command, text) for command, text in printed.items() if re.search("elsewhere|somewhere", text)] == []
    assert (root / "trace.json").exists()
    files = [path for path in root.rglob("*") if path.is_file()]
    assert any("elsewhere" in path.parts for path in files)
    assert any(root / "events" in path.parents for path in files)
    assert [str(path) for path in files if SHOWN.search(path.read_bytes().decode("latin-1"))] == []
    generated = [path for path in files if root / "target" in path.parents]
    assert [str(path) for path in generated if re.search(b"elsewhere|somewhere", path.read_bytes())] == []
