"""One broker for all processes of a test run, started by the first that needs it.

    python -m headwater.tests.kafka.shared_broker FOLDER

runs it. A process that uses the broker holds a shared lock of the file `users`, which the system releases when the
process ends, however it ends. The broker ends when its keeper gets the lock alone.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.tests.kafka.broker import KafkaBroker, kafka_broker
from headwater.tests.waiting import wait_until


@contextmanager
def shared_broker(folder: Path) -> Iterator[KafkaBroker]:
    """The broker of all processes that give the same folder."""
    folder.mkdir(exist_ok=True)
    with open(folder / "users", "w") as users:
        with open(folder / "starting", "w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            fcntl.flock(users, fcntl.LOCK_SH)  # waits for a keeper that ends its broker
            if not (folder / "broker").exists():
                _start_keeper(folder)
        yield KafkaBroker.from_json((folder / "broker").read_text())


def _start_keeper(folder: Path) -> None:
    with open(folder / "output", "wb") as output:
        command = [sys.executable, "-m", __name__, folder]
        # In a session of its own: Ctrl-C is for the tests, which end before their broker.
        keeper = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    running, why = lambda: keeper.poll() is None, lambda: (folder / "output").read_text()[-3000:]
    wait_until((folder / "broker").exists, running, why)


def _keep(folder: Path) -> None:
    """Run a broker for as long as somebody uses it."""
    with open(folder / "users") as users, kafka_broker(folder / "files") as broker:
        (folder / "new").write_text(broker.to_json())
        (folder / "new").rename(folder / "broker")
        fcntl.flock(users, fcntl.LOCK_EX)
        (folder / "broker").unlink()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
