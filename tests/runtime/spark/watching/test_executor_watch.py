"""Who is told what of the executors, while one of many threads looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event, Lock

import pytest

from headwater.runtime.cluster.spark import watching as executor_watch
from headwater.runtime.cluster.spark.watching import ExecutorWatch
from headwater.runtime.placing.place import Client, Executor

EXECUTORS = {number: Executor(number, "host", 1) for number in ("0", "1")}
CLIENTS = {number: Client(f"executor-{number}", 1, executor) for number, executor in EXECUTORS.items()}


class Spark:
    """Has two executors. A look takes until `open` is set, and another one fails meanwhile; `looks` counts them."""

    interval_s = 1.0

    def __init__(self) -> None:
        self.alive = dict(EXECUTORS)
        self.open = Event()
        self.begun = Event()
        self.looks = 0
        self._looking = Lock()

    def look(self) -> tuple[Mapping[str, Executor], Mapping[str, int]]:
        assert self._looking.acquire(blocking=False)
        self.looks += 1
        self.begun.set()
        self.open.wait()
        self._looking.release()
        return dict(self.alive), dict.fromkeys(self.alive, self.looks)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always time for another look."""
    monkeypatch.setattr(executor_watch, "WATCH_SECONDS", -1.0)


@pytest.mark.usefixtures("always")
def test_who_asks_during_a_look_of_another_thread_is_told_what_the_last_one_has_found() -> None:
    spark = Spark()
    spark.open.set()
    watch = ExecutorWatch(spark, 10.0)
    assert not watch.lost(CLIENTS["1"])
    del spark.alive["1"]
    spark.open.clear()
    spark.begun.clear()
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(watch.lost, CLIENTS["1"])
        spark.begun.wait()
        try:
            assert not watch.lost(CLIENTS["1"])
            assert watch.present() == tuple(CLIENTS.values())
            assert watch.silent(CLIENTS["1"]) is None
        finally:
            spark.open.set()
        assert looking.result()
    assert watch.present() == (CLIENTS["0"],)


def test_first_look_is_waited_for_and_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_watch, "WATCH_SECONDS", 3600.0)
    spark = Spark()
    watch = ExecutorWatch(spark, 10.0)
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(watch.present) for _ in range(8)]
        spark.begun.wait()
        spark.open.set()
        assert {each.result() for each in asked} == {tuple(CLIENTS.values())}
    assert spark.looks == 1


@pytest.mark.usefixtures("always")
def test_only_one_thread_looks_at_a_time() -> None:
    spark = Spark()
    spark.open.set()
    watch = ExecutorWatch(spark, 10.0)
    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(watch.lost, [CLIENTS["0"]] * 2000))


def test_look_that_fails_is_made_again_by_who_asks_next() -> None:
    class Failing(Spark):
        def look(self) -> tuple[Mapping[str, Executor], Mapping[str, int]]:
            if not self.looks:
                self.looks = 1
                raise ConnectionError("the JVM is busy")
            return super().look()

    spark = Failing()
    spark.open.set()
    watch = ExecutorWatch(spark, 10.0)
    with pytest.raises(ConnectionError):
        watch.present()
    assert watch.present() == tuple(CLIENTS.values())
