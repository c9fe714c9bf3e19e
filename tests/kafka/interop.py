"""Programs in Java, driven by tests: Kafka Streams, its deserializers, and the producer with its partitioner."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.tests.kafka.broker import KafkaBroker
from headwater.tests.kafka.jars import jars

PROGRAM = Path(__file__).with_name("jvm") / "Interop.java"

JAVA: Sequence[str] = ("java", "-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Jvm:
    """`Interop.java`, which runs: its methods are the commands there."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self.pid = process.pid
        self._process = process
        self._output = output

    def __call__(self, *words: str) -> Any:
        """The answer to a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(*words, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, self._output.read_text()[-3000:]
        return json.loads(line)


@contextmanager
def jvm(broker: KafkaBroker, folder: Path, java: Sequence[str] = JAVA) -> Iterator[Jvm]:
    """Start the program, with its states in a folder, and end it. `java`: the program of Java with its options."""
    output = folder / "output"
    configured = f"-Dlog4j2.configurationFile={broker.log4j}"
    command = [*java, configured, "-cp", f"{jars()}/*", str(PROGRAM), broker.bootstrap, str(folder / "states")]
    with open(output, "w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    try:
        yield Jvm(process, output)
    finally:
        process.kill()
        process.communicate()
