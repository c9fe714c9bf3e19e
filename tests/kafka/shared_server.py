"""One broker and one schema registry for all processes of a test run, each started by the first that needs it.

    python -m headwater.tests.kafka.shared_server FOLDER KIND

runs one. A process that uses it holds a shared lock of the file `users`, which the system releases when the process
ends, however it ends. The server ends when its keeper gets the lock alone.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from headwater.tests.kafka.broker import KafkaBroker, kafka_broker
from headwater.tests.kafka.registry import RegistryServer, registry_server
from headwater.tests.waiting import wait_until

_KINDS: dict[str, Callable[[Path], AbstractContextManager[KafkaBroker | RegistryServer]]] = {
    "broker": kafka_broker,
    "registry": registry_server,
}


@contextmanager
def shared_broker(folder: Path) -> Iterator[KafkaBroker]:
    """The broker of all processes that give the same folder."""
    with _shared(folder, "broker") as text:
        yield KafkaBroker.from_json(text)


@contextmanager
def shared_registry(folder: Path) -> Iterator[RegistryServer]:
    """The registry of all processes that give the same folder."""
    with _shared(folder, "registry") as text:
        yield RegistryServer.from_json(text)


@contextmanager
def _shared(folder: Path, kind: str) -> Iterator[str]:
    folder.mkdir(exist_ok=True)
    with open(folder / "users", "w") as users:
        with open(folder / "starting", "w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_SH)  # waits for a keeper that ends its server
            if not (folder / "server").exists():
                _start_keeper(folder, kind)
        yield (folder / "server").read_text()


def _start_keeper(folder: Path, kind: str) -> None:
    with open(folder / "output", "wb") as output:
        command = [sys.executable, "-m", __name__, folder, kind]
        # In a session of its own: Ctrl-C is for the tests, which end before their server.
        keeper = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    running, why = lambda: keeper.poll() is None, lambda: (folder / "output").read_text()[-3000:]
    wait_until((folder / "server").exists, running, why)


def _keep(folder: Path, kind: str) -> None:
    """Run a server for as long as somebody uses it."""
    with open(folder / "users") as users, _KINDS[kind](folder / "files") as server:
        (folder / "new").write_text(server.to_json())
        (folder / "new").rename(folder / "server")
        fcntl.flock(users, fcntl.LOCK_EX)
        (folder / "server").unlink()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), sys.argv[2])
