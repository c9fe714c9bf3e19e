"""A Java that Spark cannot be started with: what is wrong with it, and the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.runtime.cluster.spark.jvm import JavaError, check_java


def nothing(home: Path) -> None:
    home.rmdir()


def no_java(home: Path) -> None:
    (home / "bin").mkdir()


def folder(home: Path) -> None:
    (home / "bin" / "java").mkdir(parents=True)


def program(text: str, mode: int = 0o700) -> Callable[[Path], None]:
    def make(home: Path) -> None:
        file = home / "bin" / "java"
        file.parent.mkdir()
        file.write_text(text)
        file.chmod(mode)

    return make


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (nothing, "JAVA_HOME is {home}, which is not there"),
        (no_java, "JAVA_HOME is {home}, where there is no bin/java"),
        (folder, "JAVA_HOME is {home}, where there is no bin/java"),
        (program("#!/bin/sh\n", 0o600), "{home}/bin/java does not start: Permission denied"),
        (program("#!/bin/sh\nexit 3\n"), "{home}/bin/java does not say its version"),
        (program("#!/bin/sh\necho 'openjdk version \"11.0.2\"'\n"), "{home}/bin/java is Java 11.0.2"),
    ],
)
def test_wrong_java_home_is_told_with_its_path_and_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], said: str
) -> None:
    home = tmp_path / "jdk"
    home.mkdir()
    make(home)
    monkeypatch.setenv("JAVA_HOME", str(home))

    with pytest.raises(JavaError) as raised:
        check_java()

    assert said.format(home=home) in raised.value.message
    assert "set JAVA_HOME to the folder of a JDK or JRE 17 or later" in (raised.value.hint or "")


def test_no_java_on_the_path_is_told_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JavaError, match="there is no java on the PATH") as raised:
        check_java()

    assert "install a JDK or JRE 17 or later" in (raised.value.hint or "")
