"""CRC-32C steps."""

from __future__ import annotations

import numpy as np

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen

_DIGITS = b"123456789"
_ONES = 0xFFFFFFFF


def _padded(text: bytes, whole: int) -> bytes:
    """A text of at least four bytes, so that steps from the state 0 over ``whole`` bytes end as the sum of it would.

    Two facts of a register without inversion of its own. It takes its state and the next four bytes only as their
    exclusive or: to begin with all ones is to begin with 0 and invert the first four bytes. And from 0 it stays 0 over
    bytes of 0, so that they may stand in front.
    """
    first = bytes(byte ^ 0xFF for byte in text[:4])
    return bytes(whole - len(text)) + first + text[4:]


@case(
    "prim/crc32c.check_value",
    level="L3",
    clauses=("prim.crc.check_value",),
    kernels=("probe_memory",),
    primitives=("crc32c.*", "attribute.restrict", "attribute.device", "attribute.inline"),
)
def check_value(run: Run) -> Observations:
    """The sum of the nine digits, by double words and by words, with bytes of 0 in front."""
    text = np.frombuffer(_padded(_DIGITS, 16), np.uint64).copy()
    sums = run.buffer(8, "device")
    run.launch(run.kernel("probe_memory", "crc_text"), 1, 1, run.array(text, "device"), 0, sums)
    return {"text": text, "state": 0, "sums": run.read(sums, np.uint32)}


@check_value.judge
def _(seen: Seen) -> None:
    clause = "prim.crc.check_value"
    seen.equal(clause, "the text and the first state", [seen["text"].tobytes(), seen["state"]], [_text_of_digits(), 0])
    by_doubles, by_words = (int(one) ^ _ONES for one in seen["sums"])
    seen.equal(clause, "the sum of the nine digits by double words", by_doubles, 0xE3069283)
    seen.equal(clause, "the sum of the nine digits by words", by_words, 0xE3069283)


def _text_of_digits() -> bytes:
    """What was fed, written down: seven bytes of 0, the digits 1 to 4 inverted, the digits 5 to 9."""
    return bytes.fromhex("00000000000000 cecdcccb 3536373839")


@case(
    "prim/crc32c",
    level="L3",
    clauses=("prim.crc.check_value", "prim.crc.composes"),
    kernels=("probe_memory",),
    primitives=("crc32c.*",),
)
def crc32c(run: Run) -> Observations:
    """Steps from random states over random words are those of the polynomial, and one over a double word is two."""
    count = 64
    states = run.random.integers(0, 1 << 32, count, np.uint32)
    words = run.random.integers(0, 1 << 64, count, np.uint64)
    states[:2], words[::16] = (0, _ONES), 0
    sums = run.buffer(count * 12, "device")
    given = run.array(states, "device"), run.array(words, "device")
    run.launch(run.kernel("probe_memory", "crc_steps"), 2, count // 2, *given, sums, count)
    return {"states": states, "words": words, "sums": run.read(sums, np.uint32, (-1, 3))}


@crc32c.judge
def _(seen: Seen) -> None:
    states, words, sums = seen["states"].tolist(), seen["words"].tolist(), seen["sums"]
    whole = [_step(state, word, 64) for state, word in zip(states, words, strict=True)]
    low = [_step(state, word & _ONES, 32) for state, word in zip(states, words, strict=True)]
    seen.equal("prim.crc.check_value", "a step over a double word", sums[:, 0], np.array(whole, np.uint32))
    seen.equal("prim.crc.check_value", "a step over a word", sums[:, 1], np.array(low, np.uint32))
    seen.equal("prim.crc.composes", "a step over a double word, and two over its halves", sums[:, 0], sums[:, 2])


def _step(state: int, value: int, bits: int) -> int:
    """A step bit by bit, from its definition: reflected, polynomial 82F63B78h, no inversion."""
    value ^= state
    for _ in range(bits):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value
