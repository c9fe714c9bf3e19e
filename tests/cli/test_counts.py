"""Numbers of things in a sentence."""

import pytest

from headwater.cli.counts import counted, waiting


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2000, "2,000 records")])
def test_only_one_thing_is_singular(number: int, text: str) -> None:
    assert counted(number, "record") == text


def test_waiting_agrees_with_the_number() -> None:
    assert waiting(1, ("p-a",)) == "1 record waits for p-a"
    assert waiting(2, ("p-a", "p-b")) == "2 records wait for p-a, p-b"
