"""Plugins of a run, as a project gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.plugins.errors import InvalidPluginError
from headwater.runtime.chosen_plugins import ChosenPlugins
from headwater.runtime.ir.topology import PluginRef, Store

LACKING = """
from headwater.plugins import hookimpl
from headwater.runtime.log.embedded.log import EmbeddedLog


class OldLog(EmbeddedLog):
    identity = None
    read = write = None


class OldBackend:
    def open(self, directory):
        raise NotImplementedError


@hookimpl
def headwater_register_logs(register):
    register("old_log", OldLog, {"type": "object"})


@hookimpl
def headwater_register_store_backends(register):
    register("old_backend", OldBackend)


@hookimpl
def headwater_register_restore_strategies(register):
    register("no_strategy", object)


@hookimpl
def headwater_register_serdes(register):
    register("no_serde", object)
"""


@pytest.fixture
def plugins(tmp_path: Path) -> ChosenPlugins:
    (tmp_path / "headwater.yml").write_text("name: test\n")
    (tmp_path / "lacking_methods.py").write_text(LACKING)
    return ChosenPlugins((str(tmp_path), ("lacking_methods",), ()))


def test_plugin_that_lacks_a_method_is_refused_by_name_before_anything_is_done_with_it(
    plugins: ChosenPlugins, tmp_path: Path
) -> None:
    with pytest.raises(InvalidPluginError) as log:
        plugins.log(PluginRef("old_log", {"root": str(tmp_path / "log")}))
    with pytest.raises(InvalidPluginError) as backend:
        plugins.backend(Store("totals", 1, "k string", "v bigint", backend="old_backend"))
    with pytest.raises(InvalidPluginError) as strategy:
        plugins.restore_strategy(PluginRef("no_strategy"))
    with pytest.raises(InvalidPluginError) as serde:
        plugins.serde(PluginRef("no_serde"))

    assert log.value.message == "the log 'old_log' (lacking_methods:OldLog) has no method identity, read, write"
    assert (
        backend.value.message
        == "the store backend 'old_backend' (lacking_methods:OldBackend) has no method open_to_read"
    )
    assert strategy.value.message == "the restore strategy 'no_strategy' (builtins:object) has no method steps"
    assert serde.value.message == "the serde 'no_serde' (builtins:object) has no method check, deserializer, serializer"
    assert "headwater.runtime.state.store.StoreBackend" in str(backend.value.hint)


@pytest.mark.parametrize("backend", ["lmdb", "memory"])
def test_built_in_plugins_have_all_methods(plugins: ChosenPlugins, tmp_path: Path, backend: str) -> None:
    assert plugins.log(PluginRef("embedded", {"path": str(tmp_path / "log")})).identity() == ""
    assert plugins.backend(Store("totals", 1, "k string", "v bigint", backend=backend))
    assert plugins.restore_strategy(PluginRef("changelog"))
    assert plugins.serde(PluginRef("json"))
