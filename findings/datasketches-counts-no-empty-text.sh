#!/bin/sh
# datasketches 5.2.0: an empty text is no value to the sketches that count distinct ones: it is left out without a word, where SQL
# counts it. A quantile sketch leaves out NaN in the same way, also from `n`. And 1 and 1.0 are two values.
#
# Seen: HyperLogLog of '', '', 'a' -> 1; theta of '' -> 0; n of a KLL sketch of 1.0 and NaN -> 1; theta of 1 and 1.0 -> 2.
# Headwater feeds theta sketches with encoded keys, which are never empty.
#
# Ends with 0 if it is as said here, with another code if that has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check datasketches==5.2.0
"$folder/venv/bin/python" - <<'PYTHON'
import datasketches as ds

hll, theta, kll, numbers = ds.hll_sketch(12), ds.update_theta_sketch(), ds.kll_doubles_sketch(200), ds.update_theta_sketch()
for text in ("", "", "a"):
    hll.update(text)
theta.update("")
for number in (1.0, float("nan")):
    kll.update(number)
for number in (1, 1.0):
    numbers.update(number)
seen = round(hll.get_estimate()), theta.get_estimate(), kll.n, numbers.get_estimate()
print(seen)
assert seen == (1, 0, 1, 2)
PYTHON
