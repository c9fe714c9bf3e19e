"""Comments of generated code."""

from __future__ import annotations

from collections.abc import Callable

from headwater.compiler.emit.job import render_job
from headwater.compiler.pipeline import CheckedProject

TOPICS = "clicks: {partitions: 1, key: {user: string}, value: {url: string, seconds: int}}"
FLOWS = """
    flows:
      long:
        description: "Those that took\\n  long, \\u2028 'as #1' \\\\ says \\"\\"\\""
        from: clicks
        steps: [{filter: seconds > 60}, {select: {url: url}}, {filter: url <> ''}]
      bare: {from: long, to: a}
      written:
        description: %s
        from: long
        to: b
"""


def comments(job: str) -> list[str]:
    compile(job, "job.py", "exec")
    return [line.strip() for line in job.splitlines() if line.strip().startswith("#")]


def test_description_of_a_flow_stands_once_above_its_first_step(compiled: Callable[..., CheckedProject]) -> None:
    (graph,) = compiled(TOPICS, FLOWS % "Short.").topologies
    assert comments(render_job(graph)) == [
        '# long: Those that took long, \'as #1\' \\ says """',
        "# written: Short.",
    ]


def test_long_description_is_wrapped_and_a_long_word_is_left(compiled: Callable[..., CheckedProject]) -> None:
    (graph,) = compiled(TOPICS, FLOWS % f"{'many words ' * 20}{'x' * 150}").topologies
    _, *written = comments(render_job(graph))
    assert written[0].startswith("# written: many words")
    assert [len(line) > 92 for line in written] == [False] * (len(written) - 1) + [True]
