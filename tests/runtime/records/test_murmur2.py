import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.records.keys import murmur2

KAFKA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
"""The golden vectors of Kafka's own test of its hash (`UtilsTest.testMurmur2`)."""


def hashes(keys: list[bytes]) -> list[int]:
    lengths = np.array([len(key) for key in keys], np.int64)
    starts = np.cumsum(lengths) - lengths
    return murmur2(np.frombuffer(b"".join(keys), np.uint8), starts, lengths).tolist()


def java_murmur2(data: bytes) -> int:
    """Kafka's algorithm one byte string at a time, in plain integers."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    for at in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k ^= k >> 24
        h = (h * m & mask) ^ (k * m & mask)
    tail = data[len(data) // 4 * 4 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h ^= h >> 13
    h = h * m & mask
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


@pytest.mark.parametrize("key", KAFKA)
def test_golden_vector_alone_has_kafkas_hash(key):
    assert hashes([key]) == [KAFKA[key]]


def test_golden_vectors_side_by_side_have_kafkas_hashes():
    assert hashes(list(KAFKA)) == list(KAFKA.values())


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_have_the_hash_of_the_plain_algorithm(keys):
    assert hashes(keys) == [java_murmur2(key) for key in keys]


@given(st.integers(0, 13), st.integers(1, 4), st.integers(0, 2), st.randoms(use_true_random=False))
def test_keys_of_one_length_have_kafkas_hashes(length, count, before, random):
    keys = [random.randbytes(length) for _ in range(count)]
    data = np.frombuffer(b"?" * before + b"".join(keys), np.uint8)

    found = murmur2(data, before + length * np.arange(count), np.full(count, length))

    assert found.tolist() == list(map(java_murmur2, keys))
