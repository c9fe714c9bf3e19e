"""The Spark session of a project, which starts when it is first needed: to analyze expressions, or for a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ....errors import HeadwaterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ...expressions.analyzer import Rejection
    from .analyzer import SparkAnalyzer
    from .session import BegunStart


class SparkOnDemand:
    """The compiler's analyzer and the session of a run.

    `given`: a session of the caller. `starting`: called before Spark starts, with a line that says what for. A given
    session stays open, and so does one that this process had before.
    """

    def __init__(
        self,
        settings: Callable[[], Mapping[str, Any]],
        given: SparkSession | None = None,
        starting: Callable[[str], None] | None = None,
    ) -> None:
        self._settings = settings
        self._given = given
        self._starting = starting
        self._because = ""
        self._started: SparkSession | None = None
        self._begun: BegunStart | None = None
        self._analyzer: SparkAnalyzer | None = None

    @contextmanager
    def beginning(self) -> Iterator[None]:
        """Start the JVM in the background, and end it if the session was not needed.

        `session` raises the errors of the start.
        """
        from .session import begin_start

        if self._given is None and self._started is None:
            with suppress(HeadwaterError):
                self._begun = begin_start(self._settings())
        try:
            yield
        finally:
            if self._begun is not None:
                self._begun.end()
                self._begun = None

    def because(self, reason: str) -> None:
        """Set what Spark is needed for, before `session`."""
        self._because = reason

    def session(self) -> SparkSession:
        """The session. Raises JavaError, SettingError, ConnectError, SessionError."""
        from .session import require_fitting, start_session

        if self._given is not None:
            require_fitting(self._given)
            return self._given
        if self._started is None:
            from pyspark import SparkContext

            shared = SparkContext._active_spark_context is not None
            if self._because and self._starting is not None and not shared:
                self._starting(f"Spark starts for {self._because}")
            begun, self._begun = self._begun, None
            session = start_session(self._settings(), begun=begun)
            if shared:
                self._given = session
            self._started = session
        return self._started

    def analyze(self, requests: Sequence[tuple[str, str]]) -> Sequence[str | Rejection]:
        """The types of (expression, columns as DDL) as DDL, or their mistakes; see `SparkAnalyzer.analyze`.

        Raises SparkEndedError, and the errors of `session`.
        """
        from .analyzer import SparkAnalyzer
        from .jvm import telling_of_a_gone_jvm

        self.session()
        if self._analyzer is None:
            self._analyzer = SparkAnalyzer(self._settings())
        with telling_of_a_gone_jvm():
            return self._analyzer.analyze(requests)

    def close(self) -> None:
        """Stop the session that was started here, if any."""
        if self._started is not None and self._given is None:
            from .jvm import ignoring_a_gone_jvm

            with ignoring_a_gone_jvm():
                self._started.stop()
        self._started = self._analyzer = None
