#!/bin/sh
# msgspec 0.22.0: more than six digits of a second are rounded, not cut. The last tenth of a microsecond of a day becomes
# 00:00:00 of the same `time`, which is a day earlier, and of a `datetime` the next day (and the last one of the year 9999 an
# error). Python's own `fromisoformat` cuts.
#
# Seen: "23:59:59.9999999" -> time(0, 0); "2020-01-01T23:59:59.9999999Z" -> 2020-01-02 00:00; fromisoformat -> 23:59:59.999999.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check msgspec==0.22.0
"$folder/venv/bin/python" - <<'PYTHON'
import datetime

import msgspec

time = msgspec.json.decode(b'"23:59:59.9999999"', type=datetime.time)
moment = msgspec.json.decode(b'"2020-01-01T23:59:59.9999999Z"', type=datetime.datetime)
print(time, moment)
assert time == datetime.time(0, 0)
assert moment == datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)
assert datetime.datetime.fromisoformat("2020-01-01T23:59:59.9999999Z").microsecond == 999_999
try:
    msgspec.json.decode(b'"9999-12-31T23:59:59.9999999Z"', type=datetime.datetime)
except msgspec.ValidationError as error:
    print(error)
else:
    raise SystemExit("the last moment of 9999 is read now")
PYTHON
