"""A Spark session for a project, started when it is first needed: to judge expressions, or by a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .compiler.language.judge import Refusal, Request, Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .runtime.spark.analyzer import SparkAnalyzer


class SparkOnDemand:
    """The compiler's analyzer, and the session of a run. `given`: a session of the caller's.

    That one stays open, and so does one that this process already has.
    """

    def __init__(self, settings: Callable[[], Mapping[str, Any]], given: SparkSession | None = None) -> None:
        self._settings = settings
        self._given = given
        self._started: SparkSession | None = None
        self._analyzer: SparkAnalyzer | None = None

    def session(self) -> SparkSession:
        """The session. Raises JavaError, SettingError, ConnectError, SessionError."""
        from .runtime.spark.session.session import require_fitting, start_session

        if self._given is not None:
            require_fitting(self._given)
            return self._given
        if self._started is None:
            from pyspark import SparkContext

            shared = SparkContext._active_spark_context is not None
            session = start_session(self._settings())
            if shared:
                self._given = session
            self._started = session
        return self._started

    def analyze(self, requests: Sequence[Request]) -> Sequence[Verdict]:
        """A verdict for each request, by Spark's own analyzer; see `compiler.judge.Analyzer`.

        Raises SparkEndedError, and what `session` does.
        """
        from .runtime.spark.analyzer import Refused, SparkAnalyzer
        from .runtime.spark.session.gone_jvm import telling_of_a_gone_jvm

        self.session()
        if self._analyzer is None:
            self._analyzer = SparkAnalyzer(self._settings())
        with telling_of_a_gone_jvm():
            verdicts = self._analyzer.analyze(requests)
        return [Refusal(**vars(each)) if isinstance(each, Refused) else each for each in verdicts]

    def close(self) -> None:
        """Stop the session that was started, if any."""
        if self._started is not None and self._given is None:
            from .runtime.spark.session.gone_jvm import ignoring_a_gone_jvm

            with ignoring_a_gone_jvm():
                self._started.stop()
        self._started = self._analyzer = None
