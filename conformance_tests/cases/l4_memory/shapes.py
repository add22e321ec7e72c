"""Litmus shapes as data: what an instance can end with, what of that is weak, and which machines never show it.

Transcribed from the contract and from the literature; nothing here is derived from what runs. No case is here.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

Outcome = tuple[int, ...]


@dataclass(frozen=True)
class Shape:
    """A litmus shape.

    Attributes:
        title: what it is about, in words.
        noted: what an outcome's numbers are.
        strong: outcomes that any memory may show.
        weak: outcomes that the right form forbids.
        synchronised: outcomes in which one role saw what another did, so that the instance says something.
    """

    title: str
    noted: tuple[str, ...]
    strong: frozenset[Outcome]
    weak: frozenset[Outcome]
    synchronised: frozenset[Outcome]


def _shape(title: str, noted: str, weak: set[Outcome], strong: set[Outcome], silent: set[Outcome]) -> Shape:
    """A shape of which all outcomes but the silent ones say something."""
    together = frozenset(weak | strong)
    return Shape(title, tuple(noted.split(", ")), frozenset(strong), frozenset(weak), together - silent)


_MASKS = range(16)

SHAPES: Mapping[str, Shape] = {
    "mp": _shape("a flag is seen and not its data", "flag, data", {(1, 0)}, {(0, 0), (0, 1), (1, 1)}, {(0, 0), (0, 1)}),
    "isa2": _shape(
        "a leader's flag is seen and not the data that the leader had seen published",
        "leader's look, reader's look, data",
        {(1, 1, 0)},
        {(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1), (1, 1, 1)},
        {(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)},
    ),
    "sb": _shape("neither of two sees the other's store", "one, other", {(0, 0)}, {(0, 1), (1, 0), (1, 1)}, set()),
    "war": _shape(
        "a slot is read as it is filled after it was given back",
        "what was read, seen given back",
        {(2, 1)},
        {(0, 0), (0, 1)},
        {(0, 0)},
    ),
    "co": _shape(
        "a word goes back",
        "first look, second look",
        {(1, 0), (2, 0), (2, 1)},
        {(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)},
        {(0, 0)},
    ),
    "tear": _shape(
        "a flag is seen and not each word of its cell",
        "flag, words of the cell that are new",
        {(1, mask) for mask in _MASKS if mask != 15},
        {(0, mask) for mask in _MASKS} | {(1, 15)},
        {(0, mask) for mask in _MASKS},
    ),
    "tail": _shape("a doorbell rests on less than the last tail", "last value of the register", {(1,)}, {(2,)}, set()),
    "entry": _shape(
        "a doorbell is seen and not each word of its entry",
        "word 0, word 10, word 12",
        {words for words in itertools.product((0, 1), repeat=3) if 0 in words},
        {(1, 1, 1)},
        set(),
    ),
    "data": _shape("a completion is seen and not its first word", "first word", {(0,)}, {(1,)}, set()),
    "phase": _shape("a phase goes back", "first look, second look", {(1, 0)}, {(0, 0), (0, 1), (1, 1)}, {(0, 0)}),
    # 2: a twin whose partner did not come in time looked at nothing.
    "barrier": _shape("what was stored before a barrier is not read after it", "data", {(0,)}, {(1,), (2,)}, {(2,)}),
}


@dataclass(frozen=True)
class Model:
    """What a memory is known never to show, so that a twin that does not show it there proves nothing against it.

    Attributes:
        title: how a report names it.
        never: shapes whose weak outcome no form of theirs shows.
        why: the reason, a sentence.
        source: where it is from.
    """

    title: str
    never: frozenset[str]
    why: str
    source: str


#: A model is named by where the lanes run: a simulated world has its own; lanes on a CPU have that CPU's.
MODELS: Mapping[str, Model] = {
    "views": Model(
        "the engine's view machine",
        frozenset({"war"}),
        "No load is taken after a store that follows it in its thread (load buffering is unexplored).",
        "docs/engine.md",
    ),
    "x86-tso": Model(
        "x86-TSO",
        frozenset({"mp", "isa2", "war", "tear", "barrier", "entry", "data"}),
        "Loads stay in order, stores stay in order, and no store passes an earlier load; only a store buffer is "
        "between a thread and the memory, so a load may overtake an earlier store of its own thread and nothing else.",
        "Owens, Sarkar, Sewell: A Better x86 Memory Model: x86-TSO (2009)",
    ),
}

#: Machines, as Python names them, whose CPU has a model of the table.
CPUS: Mapping[str, str] = {"x86_64": "x86-tso", "AMD64": "x86-tso"}


def _mp(*weak: str, right: tuple[str, ...]) -> dict[str, tuple[str, frozenset[Outcome]]]:
    found = {f"mp_{name}": ("mp", frozenset[Outcome]()) for name in right}
    return found | {f"mp_{name}": ("mp", SHAPES["mp"].weak) for name in weak}


_SCOPED = ("add", "exchange", "or", "cas")

#: Form of a kernel -> its shape, and the weak outcomes that the memory model allows it; transcribed from the model's
#: litmus table, form by form.
FORMS: Mapping[str, tuple[str, frozenset[Outcome]]] = {
    **_mp(
        *("relaxed_relaxed_u32", "relaxed_relaxed_u64", "relaxed_acquire_u32", "release_relaxed_u32"),
        *("fence_relaxed_u32", "relaxed_fence_u32", "block_block_u32", "within_relaxed"),
        *(f"{op}_{op}_u32" for op in _SCOPED),
        right=(
            *(f"{one}_{bits}" for one in ("release_acquire", "fence_fence") for bits in ("u32", "u64")),
            *(f"fence_{op}_{op}_fence_u32" for op in _SCOPED),
            "within_block",
        ),
    ),
    "isa2_release_acquire_release_acquire": ("isa2", frozenset()),
    "isa2_fence_fence_relaxed_acquire": ("isa2", frozenset()),
    "isa2_relaxed_relaxed_relaxed_relaxed": ("isa2", SHAPES["isa2"].weak),
    "isa2_fence_relaxed_relaxed_acquire": ("isa2", SHAPES["isa2"].weak),
    "sb_fence": ("sb", frozenset()),
    "sb_system": ("sb", frozenset()),
    "sb_relaxed": ("sb", SHAPES["sb"].weak),
    "sb_ordered": ("sb", SHAPES["sb"].weak),
    "war_release": ("war", frozenset()),
    "war_fence": ("war", frozenset()),
    # Load buffering: the model is without it, and says so.
    "war_relaxed": ("war", frozenset()),
    **{f"co_right_{bits}": ("co", frozenset[Outcome]()) for bits in ("u32", "u64")},
    **{f"co_looks_{bits}": ("co", SHAPES["co"].weak) for bits in ("u32", "u64")},
    **{f"co_stores_{bits}": ("co", frozenset({(2, 1)})) for bits in ("u32", "u64")},
    "tear_release": ("tear", frozenset()),
    "tear_fence": ("tear", frozenset()),
    "tear_relaxed": ("tear", SHAPES["tear"].weak),
    "tail_locked": ("tail", frozenset()),
    "tail_bare": ("tail", SHAPES["tail"].weak),
    "barrier_right": ("barrier", frozenset()),
    "barrier_twin": ("barrier", SHAPES["barrier"].weak),
}


def key(outcome: Outcome) -> str:
    """An outcome as a histogram's key."""
    return ",".join(map(str, outcome))


def outcomes(text: str) -> Outcome:
    """The reverse of :func:`key`."""
    return tuple(map(int, text.split(",")))


def pairs_of_shapes() -> tuple[str, ...]:
    """Names of all forms, in order."""
    return tuple(itertools.chain(FORMS))
