#!/bin/sh
# hypothesis 6.170.17: a test with `derandomize=True` is to have the same examples each time. It has others as soon as one more
# module of the project is loaded, whatever that module is for: constants of all local modules are mixed into the
# examples. So in a run of several processes (pytest-xdist) the examples of a test depend on which test files ran in its
# process before, and a test can fail once and pass when it is run by itself.
#
# Seen: two runs without the other module are equal, two runs with it are equal, and these differ from those; its
# constant 987654321 is among the integers that were drawn.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check hypothesis==6.170.17
mkdir "$folder/project"
cat >"$folder/project/other.py" <<'PYTHON'
LIMIT = 987654321
PYTHON
cat >"$folder/project/seen.py" <<'PYTHON'
import hashlib
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

if sys.argv[1] == "with":
    import other

drawn = []


@settings(derandomize=True, max_examples=300, database=None)
@given(st.integers())
def gather(number):
    drawn.append(number)


gather()
print(hashlib.sha256(repr(drawn).encode()).hexdigest()[:12], 123456789 * 8 + 9 in drawn)
PYTHON
cd "$folder/project"
first=$("$folder/venv/bin/python" seen.py without)
again=$("$folder/venv/bin/python" seen.py without)
more=$("$folder/venv/bin/python" seen.py with)
more_again=$("$folder/venv/bin/python" seen.py with)
echo "without: $first"
echo "with:    $more"
[ "$first" = "$again" ] && [ "$more" = "$more_again" ] && [ "$first" != "$more" ]
case $first in *False) ;; *) exit 1 ;; esac
case $more in *True) ;; *) exit 1 ;; esac
