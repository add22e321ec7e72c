"""Keys: bytes, 1 to the store's limit of them; text stands for its UTF-8."""

from __future__ import annotations

from collections.abc import Iterable

from tutti_hal.errors import KeyInvalid

#: What callers may give as a key.
Key = bytes | str


def to_bytes(key: Key, limit: int) -> bytes:
    """The bytes of a key. Any bytes will do, UTF-8 or not.

    Raises:
        KeyInvalid: empty, too long, text that has no UTF-8 (a lone surrogate), or neither text nor bytes.
    """
    if isinstance(key, str):
        try:
            key = key.encode("utf-8")
        except UnicodeEncodeError as error:
            raise KeyInvalid(f"use the key {key!a}", str(error), "Give its bytes instead.") from error
    if not isinstance(key, bytes):
        raise KeyInvalid("use a key", f"it is a {type(key).__name__}", "Give bytes or text.")
    if not 1 <= len(key) <= limit:
        raise KeyInvalid("use a key", f"it has {len(key)} bytes", f"Give 1 to {limit} bytes.")
    return key


def all_to_bytes(keys: Iterable[Key], limit: int) -> list[bytes]:
    """The bytes of keys that must differ.

    Raises:
        KeyInvalid: as `to_bytes`, or a key that stands there twice.
    """
    found: list[bytes] = []
    seen: set[bytes] = set()
    for key in keys:
        raw = to_bytes(key, limit)
        if raw in seen:
            raise KeyInvalid("use a batch of keys", f"{printable(raw)} is in it twice", "Give each key once.")
        seen.add(raw)
        found.append(raw)
    return found


def printable(key: bytes) -> str:
    """A key for people: its text where it is plain, else hexadecimal behind ``0x``."""
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{key.hex()}"
    return text if text.isprintable() and not text.startswith("0x") else f"0x{key.hex()}"
