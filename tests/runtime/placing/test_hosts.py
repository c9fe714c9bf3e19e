"""Where clients stand, by the profile's map or script."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.ir.topology import PluginRef, Settings
from headwater.runtime.placing.place import Client, Executor, Racks, RackScriptError
from headwater.tests.processes import has_ended
from headwater.tests.waiting import wait_until

VIRTUAL = Client("client-1", 1)
PLACED = Client("executor-3", 1, Executor("3", "host-1", 1))


def settings(**given: object) -> Settings:
    return Settings(PluginRef("embedded"), "state", **given)  # type: ignore[arg-type]


def test_executor_is_found_by_its_host_and_a_virtual_client_by_its_name() -> None:
    racks = Racks(settings(racks={"host-1": "left", "client-1": "desk"}, client_tags={"host-1": {"zone": "a"}}))
    assert (racks.rack(PLACED), racks.tags(PLACED)) == ("left", {"zone": "a"})
    assert (racks.rack(VIRTUAL), racks.tags(VIRTUAL)) == ("desk", {})


def test_host_that_is_not_in_the_map_has_no_rack() -> None:
    assert Racks(settings(racks={"host-2": "left"})).rack(PLACED) is None


def script(root: Path, text: str) -> str:
    path = root / "rack"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_script_is_called_with_the_host(tmp_path: Path) -> None:
    assert Racks(settings(rack_script=script(tmp_path, 'echo "rack of $1"'))).rack(PLACED) == "rack of host-1"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("echo not known >&2; exit 3", "not known"),
        ("exit 3", "exit code 3"),
        ("true", "exit code 0, nothing printed"),
        ("printf 'a\\nb\\n'", ".* is not one line of text"),
        ("printf '\\377'", ".* is not one line of text"),
        ("printf '\\377' >&2; exit 1", "\ufffd"),
        ("cat; exit 4", "exit code 4"),
    ],
)
def test_script_that_fails_is_an_error_that_says_why(tmp_path: Path, text: str, cause: str) -> None:
    with pytest.raises(RackScriptError, match=f"tells no rack of host-1: {cause}"):
        Racks(settings(rack_script=script(tmp_path, text))).rack(PLACED)


def test_script_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RackScriptError, match="No such file"):
        Racks(settings(rack_script=str(tmp_path / "rack"))).rack(PLACED)


def test_script_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    started = tmp_path / "started"
    endless = settings(rack_script=script(tmp_path, f"sleep 1000000 &\necho $! > {started}\nwait"))
    patience_s = 0.1

    while not started.exists() or not started.read_text():  # on a busy machine it may need more time to begin
        patience_s *= 2
        with pytest.raises(RackScriptError, match=f"tells no rack of host-1: no answer within {patience_s:g} s"):
            Racks(endless, patience_s).rack(PLACED)

    process = int(started.read_text())
    wait_until(lambda: has_ended(process))
