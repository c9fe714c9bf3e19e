from __future__ import annotations

import socket
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from headwater.runtime.driver.events import StatusTaken
from headwater.runtime.driver.status import ClientStatus, RunStatus
from headwater.runtime.observe.metrics import FAMILIES, HOST, PortTakenError, serving


def test_port_that_another_program_has_is_refused_in_a_sentence():
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTakenError) as refused, serving(port):
            raise AssertionError("it was opened")

    assert str(refused.value.message) == (
        f"metrics cannot be served on port {port} of 127.0.0.1: another program uses it"
    )
    assert "another port" in refused.value.hint


def test_port_is_free_again_after_the_run():
    with serving(0) as (_, url):
        text = urlopen(url).read().decode()
    with pytest.raises(URLError):
        urlopen(url)

    assert [name for name in FAMILIES if f"# HELP {name} " not in text] == []
    assert "process_resident_memory_bytes " in text


def test_names_and_units_are_prometheus_own():
    for family in FAMILIES.values():
        assert family.name.startswith("headwater_")
        assert family.name.endswith("_total") == (family.kind == "counter")
        assert family.meaning.endswith(".")
        words = family.name.removesuffix("_total").split("_")
        assert not {"ms", "milliseconds", "kb", "mb", "rate", "percent"} & set(words)


def test_label_with_any_character_neither_forges_a_line_nor_takes_the_metrics_away():
    client = ClientStatus("client\udc80", 2, 'a\x1b[2J"\nheadwater_forged 1', ())
    status = RunStatus("app", 1, "driver", None, 1000, 2000, 1000, 0, 0, False, (client,))
    with serving(0) as (statuses, url):
        statuses.on(StatusTaken("app", status))
        text = urlopen(url).read().decode()
    labels = r'{application="app",client="client\\udc80",host="a\\x1b[2J\"\nheadwater_forged 1"}'
    assert f"headwater_client_threads{labels} 2.0\n" in text
    assert "\nheadwater_forged" not in text
