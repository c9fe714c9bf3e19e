"""A real schema registry: Apicurio, which has Confluent's API, in memory and on 127.0.0.1 only.

    python tests/kafka/registry.py

fetches it with Maven, if it is not there yet. It is kept for all checkouts, beside the jars of the broker.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headwater.tests.ports import free_ports
from headwater.tests.processes import has_ended
from headwater.tests.waiting import wait_until

VERSION = "2.6.13.Final"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_JAR = f"apicurio-registry-app-{VERSION}-runner.jar"
_JAVA = ("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class RegistryServer:
    """A running registry. `url`: of Confluent's API."""

    url: str
    pid: int

    @classmethod
    def from_json(cls, text: str) -> RegistryServer:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def set_compatibility(self, subject: str, level: str) -> None:
        """Let a subject have only schemas that are compatible: BACKWARD, FULL, NONE and others."""
        body = json.dumps({"compatibility": level}).encode()
        request = urllib.request.Request(f"{self.url}/config/{subject}", body, method="PUT")
        request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        urllib.request.urlopen(request).close()


def files() -> Path:
    """The folder of the registry's jars."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "headwater" / f"apicurio-{VERSION}"


def missing() -> str | None:
    """Why a registry cannot run here, None if it can."""
    if shutil.which("java") is None:
        return "a schema registry needs Java"
    if not files().is_dir():
        return f"the jars of a schema registry are not in {files()}: `make kafka-jars` fetches them with Maven"
    return None


def fetch() -> None:
    """Fetch the registry. The folder appears when it has all jars."""
    folder = files()
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent) as temporary:
        command = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={_ARTIFACT}"]
        subprocess.run([*command, f"-DoutputDirectory={temporary}"], check=True, cwd=temporary)
        (archive,) = Path(temporary).glob("*.tar.gz")
        shutil.unpack_archive(archive, f"{temporary}/app")
        try:
            Path(temporary, "app").rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise


@contextmanager
def registry_server(folder: Path) -> Iterator[RegistryServer]:
    """Start a registry. For tests that stop it; all others use the fixture `schema_registry`."""
    folder.mkdir(parents=True, exist_ok=True)
    process = None
    try:
        while process is None:
            (port,) = free_ports(1)
            process = _start(folder / "output", port)
        yield RegistryServer(_url(port), process.pid)
    finally:
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _start(output: Path, port: int) -> subprocess.Popen[bytes] | None:
    """The registry's process, once it answers; None if somebody else has taken its port."""
    settings = ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}", "-Dquarkus.log.level=WARN"]
    with open(output, "wb") as said:
        command = [*_JAVA, *settings, "-jar", _JAR]
        # In a session of its own: whom Ctrl-C ends may need the registry until then.
        process = subprocess.Popen(command, cwd=files(), stdout=said, stderr=said, start_new_session=True)
    try:
        wait_until(lambda: _answers(_url(port)) or has_ended(process.pid))
    except BaseException:
        process.kill()
        raise
    if process.poll() is None:
        return process
    assert "already in use" in output.read_text(), output.read_text()[-3000:]
    return None


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}/apis/ccompat/v7"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/subjects", timeout=5):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    try:
        fetch()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"the jars of a schema registry cannot be fetched: {error}")
