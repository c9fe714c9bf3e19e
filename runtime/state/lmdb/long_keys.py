"""Stores keys longer than LMDB allows: a prefix and a hash replace the key, and the whole key is kept in the value.

A stored key of the full 511 bytes is always a prefix with a hash. A shorter one is the key itself. So the two cannot be
confused. Long keys with the same prefix lie together, ordered by hash; readers sort them.
"""

from __future__ import annotations

from hashlib import blake2b

STORED = 511
HASH = 16
PREFIX = STORED - HASH


def stored_key(key: bytes) -> bytes:
    """The form under which `key` is stored, at most 511 bytes."""
    return key if len(key) <= PREFIX else key[:PREFIX] + blake2b(key, digest_size=HASH).digest()


def behind_stored(end: bytes) -> bytes:
    """What is greater than the stored forms of all keys below `end`; of a long one also of those with its prefix."""
    return end if len(end) <= PREFIX else end[:PREFIX] + b"\xff" * HASH


def stored_value(key: bytes, value: bytes) -> bytes:
    """The value to store for `key`. For a long key: its length (4 bytes, little endian), the key, and the value."""
    return value if len(key) <= PREFIX else len(key).to_bytes(4, "little") + key + value


def is_long(stored: bytes) -> bool:
    """Whether a stored key replaces a longer one."""
    return len(stored) == STORED


def original(stored: bytes, value: bytes) -> tuple[bytes, bytes]:
    """The original key and value of their stored forms."""
    if not is_long(stored):
        return stored, value
    end = 4 + int.from_bytes(value[:4], "little")
    return value[4:end], value[end:]
