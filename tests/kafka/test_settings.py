"""The settings that profiles may give to librdkafka are those that the client itself prints.

`pytest --update-golden` renews the list, with the version that is installed.
"""

from __future__ import annotations

import ctypes
import json
from pathlib import Path

import confluent_kafka
import pytest

from headwater.compiler.target_settings import SECURITY
from headwater.runtime import pinned_settings
from headwater.runtime.pinned_settings import PINNED_OF_KAFKA, settings_of_kafka

LIST = Path(pinned_settings.__file__).with_name("librdkafka.json")


def printed(file: Path) -> list[str]:
    """The names of the settings, from the table that `rd_kafka_conf_properties_show` prints. Functions are left out."""
    (library,) = (Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs").glob("librdkafka*")
    client, system = ctypes.CDLL(str(library)), ctypes.CDLL(None)
    system.fopen.restype = ctypes.c_void_p
    stream = ctypes.c_void_p(system.fopen(bytes(file), b"w"))
    client.rd_kafka_conf_properties_show(stream)
    system.fclose(stream)
    rows = [line for line in file.read_text().splitlines() if line.count(" | ") >= 5]
    return sorted({line.split("|")[0].strip() for line in rows if "see dedicated API" not in line} - {"Property"})


def test_list_is_that_of_the_client(tmp_path: Path, update_golden: bool) -> None:
    version = confluent_kafka.libversion()[0]
    names = printed(tmp_path / "table")
    if update_golden:
        LIST.write_text(json.dumps({"version": version, "names": names}, indent=0) + "\n")
        settings_of_kafka.cache_clear()
    if version != settings_of_kafka().version:
        pytest.skip(f"the list is that of librdkafka {settings_of_kafka().version}, and {version} is installed")
    assert settings_of_kafka().names == names


def test_list_has_the_settings_that_this_project_sets() -> None:
    names = set(settings_of_kafka().names)
    assert names >= PINNED_OF_KAFKA | set(SECURITY.values()) | {"sasl.oauthbearer.method"}
