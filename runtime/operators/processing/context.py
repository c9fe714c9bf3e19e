"""What a processor is given in `init`: its stores, where records go, the times of punctuations, and where it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from ...python_functions.values import UnfitValueError
from ..order.origins import Origins
from .forwarded import Forwarded
from .moment import Moment
from .punctuation import Callback, Cancellable, Kind, Schedules
from .stores.any_store import AnyStore
from .unknown import CONTEXT, not_named


class ProcessorContext:
    """The names are those of Kafka's `ProcessorContext`. It serves one epoch, as the processor does.

    What it raises when it is used wrongly is the error of the record at work, with the line that did it.
    """

    if not TYPE_CHECKING:  # a type checker knows which there are

        def __getattr__(self, name: str) -> NoReturn:
            """Say which words there are. Raises AttributeError."""
            raise CONTEXT.unknown(name)

    def __init__(
        self,
        partition: int,
        task: str,
        stores: Mapping[str, AnyStore],
        forwarded: Forwarded,
        schedules: Schedules,
        origins: Origins,
        moment: Moment,
    ) -> None:
        self._partition = partition
        self._task = task
        self._stores = stores
        self._forwarded = forwarded
        self._schedules = schedules
        self._origins = origins
        self._moment = moment
        self._processor: Any = None
        self._in_init = True
        self._closing = False

    def store(self, name: str) -> AnyStore:
        """One of the stores that the step names."""
        if name not in self._stores:
            raise UnfitValueError(not_named(name, "stores", self._stores))
        return self._stores[name]

    def forward(self, record: Any, flow: str | None = None) -> None:
        """Give a record to the next steps, or to the flow of this name if the step has `flows`."""
        self._moment.refuse_outside()
        if self._closing:
            raise UnfitValueError("`close` cannot forward records: it runs at the end of each epoch, wherever that is")
        if self._in_init:
            raise UnfitValueError("`init` cannot forward records: it runs in every epoch, also where none comes")
        if self._moment.in_batch:
            raise UnfitValueError("`process_batch` returns what it forwards")
        self._forwarded.add(record, flow)

    def schedule(self, interval: str, kind: Kind, callback: Callback) -> Cancellable:
        """Call `callback(time)` again and again: `kind` is "stream_time" or "wall_clock", `interval` such as "30s".

        Outside of `init` the callback is a method of the processor, which later epochs find by its name.
        """
        self._moment.refuse_outside()
        if not callable(callback):
            raise UnfitValueError(f"what a punctuation calls is a function, not {callback!r:.100}")
        if self._in_init:
            return self._schedules.of_init(interval, kind, callback)
        return self._schedules.later(interval, kind, callback, self._method(callback), self._moment.at)

    def schedules(self, callback: Callback) -> list[Cancellable]:
        """The schedules of a method that are not cancelled, also those of earlier epochs."""
        self._moment.refuse_outside()
        return self._schedules.running(getattr(callback, "__name__", ""))

    @property
    def stream_time(self) -> int:
        """The greatest timestamp of the records that the task has taken, with the one at work, ms; -1 before any."""
        self._moment.refuse_outside()
        return self._moment.stream_time

    @property
    def partition(self) -> int:
        """The task's partition."""
        return self._partition

    @property
    def task_id(self) -> str:
        """How the task is shown: its subtopology's name and the partition, such as `clicks_1`."""
        return self._task

    @property
    def topic(self) -> str | None:
        """The topic of the record at work; None in a punctuation, and for what comes as time alone passes."""
        self._moment.refuse_outside()
        number = self._moment.record
        return None if number is None else self._origins.topic(number)

    @property
    def offset(self) -> int | None:
        """The offset of the record at work in its topic; None where `topic` is."""
        self._moment.refuse_outside()
        number = self._moment.record
        return None if number is None else self._origins.offset(number)

    def begin(self, processor: Any) -> None:
        """`init` is done: records follow."""
        self._in_init = False
        self._processor = processor
        self._schedules.restore(self._method_called)

    def end(self) -> None:
        """All records are processed."""
        self._closing = True

    def _method_called(self, name: str) -> Callable[[int], object]:
        found: Callable[[int], object] | None = getattr(self._processor, name, None)
        if found is None:
            kind = type(self._processor).__name__
            raise UnfitValueError(
                f"a punctuation of {kind}.{name} is scheduled, and {kind} has no such method any more"
            )
        return found

    def _method(self, callback: Callback) -> str:
        name = getattr(callback, "__name__", "")
        if getattr(callback, "__self__", None) is not self._processor or not hasattr(self._processor, name):
            raise UnfitValueError(
                "outside of `init` a punctuation calls a method of the processor, which later epochs find by its name, "
                f"and not {callback!r:.100}"
            )
        return str(name)
