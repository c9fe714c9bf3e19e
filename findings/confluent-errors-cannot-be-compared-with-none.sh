#!/bin/sh
# confluent-kafka 2.16.1 for Python: a KafkaError that is compared with anything but an error or an int answers False and leaves a
# TypeError behind, which appears wherever Python looks for one next. Python's rule for `__eq__` is NotImplemented, and so False.
# So `error == None` is False or raises, as the code around it has it; calls that compare end with a SystemError of the interpreter,
# such as the comparison of two dataclasses with an error in one and None in the other. `error is None` works.
#
# Seen: operator.eq, list.count and two dataclasses: SystemError, caused by "TypeError: 'NoneType' object cannot be interpreted as an
# integer". With a KeyError in its place: False, 0, False.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check confluent-kafka==2.16.1
"$folder/venv/bin/python" - <<'PYTHON'
import operator
from dataclasses import dataclass

from confluent_kafka import KafkaError


@dataclass
class Outcome:
    error: object = None


def seen(question):
    try:
        return question()
    except Exception as error:
        return type(error).__name__, str(error.__cause__)


def answers(error):
    return {
        "operator.eq": seen(lambda: operator.eq(error, None)),
        "count(None)": seen(lambda: [error].count(None)),
        "dataclasses": seen(lambda: Outcome(error) == Outcome()),
    }


found, control = answers(KafkaError(KafkaError._TIMED_OUT)), answers(KeyError("a"))
print(found, control, sep="\n")
assert set(found.values()) == {("SystemError", "'NoneType' object cannot be interpreted as an integer")}
assert list(control.values()) == [False, 0, False]
PYTHON
