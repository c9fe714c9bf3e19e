"""The conformance cases in epochs of one and of seven records, without Spark."""

import pytest

from headwater.tests.conformance.driving import Compiled
from headwater.tests.conformance.notation import by_topic, token_of
from headwater.tests.conformance.project import CASES, Case

ON_SPARK = {"20_subtract_before_add", "37_final_sessions"}
"""Cases with an expression whose type only Spark knows."""

PER_EPOCH = {"30_per_epoch", "32_per_epoch_of_what_may_fail"}
"""Cases in which it matters where epochs end."""

NAMES = sorted({path.stem for path in CASES.glob("*.yml")} - ON_SPARK - PER_EPOCH)


FINE = [name for name in NAMES if "fails" not in Case.load(name).content]

EPOCHS = (1, 7)
"""Most records of an epoch: `make test` has one of them for each case by turns, `make soak` both."""


@pytest.mark.parametrize(
    ("name", "epochs"),
    [
        *((name, EPOCHS[number % 2 :][:1]) for number, name in enumerate(FINE)),
        *(pytest.param(name, EPOCHS, marks=pytest.mark.soak) for name in FINE),
    ],
)
def test_case_gives_the_same_records_and_drops_wherever_epochs_end(name, epochs, tmp_path):
    case = Case.load(name)
    case.write(tmp_path)
    compiled = Compiled(tmp_path, "case")
    for max_records in epochs:
        with compiled.driven(max_records) as driven:
            for batch in case.batches:
                driven.together({topic: map(case.record, tokens) for topic, tokens in by_topic(batch).items()})
            found = {
                topic: [token_of(topic, each.key, each.value, each.timestamp) for each in driven.written(topic)]
                for topic in case.output_topics
            }
            assert {topic: tokens for topic, tokens in found.items() if tokens} == case.outputs[0], max_records
            assert driven.dropped.total() == case.outputs[1]
