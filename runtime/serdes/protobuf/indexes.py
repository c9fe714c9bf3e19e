"""The indexes between the number of a schema and a message: which message of the schema it is.

They are varints in zigzag form: how many there are, then the index at each level. `[0]`, the first message, is the byte
0 alone.

    the first message                       00
    the second message                      02 02
    the first message in the first one      04 00 00
    the second one in the third one         04 04 02
"""

from __future__ import annotations

from collections.abc import Sequence

FIRST = (0,)


def written_indexes(indexes: Sequence[int]) -> bytes:
    """Indexes as bytes."""
    if tuple(indexes) == FIRST:
        return b"\x00"
    return b"".join(varint(number << 1) for number in (len(indexes), *indexes))


def varint(number: int) -> bytes:
    """A number that is not negative, in groups of 7 bits."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def read_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes at the beginning of a payload, and where the message begins. Raises ValueError."""
    if payload[:1] == b"\x00":
        return FIRST, 1
    count, at = _number(payload, 0)
    indexes = list[int]()
    for _ in range(count):
        index, at = _number(payload, at)
        indexes.append(index)
    return tuple(indexes), at


def _number(payload: bytes, at: int) -> tuple[int, int]:
    """A varint that is an index, or how many there are, and where it ends. Raises ValueError."""
    number = shift = 0
    while True:
        if at >= len(payload) or shift > 28:
            raise ValueError("the indexes of its message are cut off, or no numbers")
        number |= (payload[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if payload[at - 1] < 0x80:
            break
    if number & 1:
        raise ValueError(f"{-(number + 1 >> 1)} is no index of a message")
    return number >> 1, at
