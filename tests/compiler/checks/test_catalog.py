"""What the compiler asks about plugins, of those that there are."""

from __future__ import annotations

from headwater.compiler.checks.plugins import PluginCatalog
from headwater.plugins.manager import PluginManager


def test_strategies_that_save_and_backends_that_can_be_copied_are_known():
    catalog = PluginCatalog(lambda block: PluginManager(block=block, installed=False))

    strategies = {name: catalog.makes("restore_strategy", name, "save") for name in ("changelog", "snapshot")}
    backends = {name: catalog.makes("store_backend", name, "load_copy") for name in ("lmdb", "memory", "rocksdb")}

    assert strategies == {"changelog": False, "snapshot": True}
    assert backends == {"lmdb": True, "memory": True, "rocksdb": True}
