"""Litmus shapes as data: what each agent does, which outcome is weak, and whether it may be seen.

The table is written from the memory model's own text; it shares nothing with the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

#: Kinds as `kernels/litmus.cpp` numbers them.
KINDS = (
    "load",
    "store",
    "fence",
    "add",
    "exchange",
    "cas",
    "barrier",
    "wave_sync",
    "mmio_store",
    "mmio_load",
    "quad_load",
    "quad_store",
    "await",
    "stop",
    "dma_read",
    "dma_write",
    "doorbell",
)
ORDERS = ("relaxed", "acquire", "release")
SCOPES = ("block", "device", "system")

Registers = list[list[int]]


class Memory(Protocol):
    """Final values of locations."""

    def __getitem__(self, where: str, /) -> int: ...


@dataclass(frozen=True)
class Op:
    """One step of an agent; `where` names a location."""

    kind: str
    where: str = ""
    value: int = 0
    reg: int = 0
    order: str = "relaxed"
    scope: str = "device"
    bytes: int = 4


def load(where: str, reg: int = 0, order: str = "relaxed", scope: str = "device", size: int = 4) -> Op:
    return Op("load", where, reg=reg, order=order, scope=scope, bytes=size)


def store(where: str, value: int = 1, order: str = "relaxed", scope: str = "device", size: int = 4) -> Op:
    return Op("store", where, value, order=order, scope=scope, bytes=size)


def fence(scope: str = "device") -> Op:
    return Op("fence", scope=scope)


def until(where: str, value: int = 1, order: str = "relaxed", scope: str = "system") -> Op:
    return Op("await", where, value, order=order, scope=scope)


def stop_unless(reg: int, value: int) -> Op:
    return Op("stop", reg=reg, value=value)


def add(where: str, value: int = 1, reg: int = 0, scope: str = "device", size: int = 4) -> Op:
    return Op("add", where, value, reg=reg, scope=scope, bytes=size)


def ring(where: str, value: int = 1, reg: int = 7) -> Op:
    return Op("mmio_store", where, value, reg=reg)


@dataclass(frozen=True)
class Shape:
    """A litmus test.

    `lanes` are the programs of lanes, `controller` that of a controller if there is one. `weak` judges the registers
    (lanes in order, the controller last) and the final values of the locations. `seen` is what the model promises:
    True, the weak outcome must turn up; False, it never does. `relevant` tells the runs that say anything at all.
    """

    name: str
    lanes: tuple[tuple[Op, ...], ...]
    weak: Callable[[Registers, Memory], bool]
    seen: bool
    controller: tuple[Op, ...] = ()
    relevant: Callable[[Registers], bool] = field(default=lambda _: True)
    one_block: bool = False
    options: Mapping[str, int] = field(default_factory=dict)
    preemptions: int = 0  # bound of the exhaustive exploration: fewer than this many; 0: no bound


def message_passing(
    name: str,
    seen: bool,
    writer: tuple[Op, ...],
    reader: tuple[Op, ...],
    one_block: bool = False,
    options: Mapping[str, int] | None = None,
) -> Shape:
    """Write x, then the flag y; the reader takes the flag into register 0 and x into register 1."""
    return Shape(
        name,
        (writer, reader),
        lambda r, _: r[1][0] == 1 and r[1][1] == 0,
        seen,
        relevant=lambda r: r[1][0] == 1,
        one_block=one_block,
        options=options or {},
    )


def isa2(
    name: str, seen: bool, w: str = "release", ra: str = "acquire", rr: str = "release", a: str = "acquire"
) -> Shape:
    return Shape(
        f"ISA2 {name}",
        (
            (store("x"), store("y", order=w)),
            (load("y", order=ra), stop_unless(0, 1), store("z", order=rr)),
            (load("z", order=a), stop_unless(0, 1), load("x", 1)),
        ),
        lambda r, _: r[2][0] == 1 and r[2][1] == 0,
        seen,
        relevant=lambda r: r[2][0] == 1,
    )


def leader(name: str, seen: bool, acquire: str, *before_bell: Op, worker: str = "release") -> Shape:
    """A lane writes x and publishes y; the leader takes y, rings; the controller takes the bell and reads x."""
    return Shape(
        f"leader rings, {name}",
        (
            (store("x"), store("y", order=worker), until("done")),
            (load("y", order=acquire), stop_unless(0, 1), *before_bell, ring("bell"), until("done")),
        ),
        lambda r, _: r[2][1] == 0,
        seen,
        controller=(
            Op("doorbell", "bell", reg=0),
            Op("dma_read", "x", reg=1),
            Op("dma_write", "done", 1),
        ),
        relevant=lambda r: r[1][0] == 1,
        preemptions=3,
    )


def store_buffering(name: str, seen: bool, *between: Op, st: str = "relaxed", ld: str = "relaxed") -> Shape:
    return Shape(
        f"SB {name}",
        (
            (store("x", order=st), *between, load("y", order=ld)),
            (store("y", order=st), *between, load("x", order=ld)),
        ),
        lambda r, _: r[0][0] == 0 and r[1][0] == 0,
        seen,
    )


def iriw(name: str, seen: bool, *between: Op, scope: str = "device") -> Shape:
    return Shape(
        f"IRIW {name}",
        (
            (store("x", scope=scope),),
            (store("y", scope=scope),),
            (load("x", 0, "acquire", scope), *between, load("y", 1, "acquire", scope)),
            (load("y", 0, "acquire", scope), *between, load("x", 1, "acquire", scope)),
        ),
        lambda r, _: r[2][:2] == [1, 0] and r[3][:2] == [1, 0],
        seen,
        relevant=lambda r: r[2][0] == 1 and r[3][0] == 1,
        preemptions=3,
    )


def completion(name: str, seen: bool, order: str, scope: str = "system") -> Shape:
    """The controller writes a CQE of four dwords; the lane polls dword 3, then reads dword 0."""
    return Shape(
        f"torn CQE, {name}",
        ((load("cqe+12", 0, order, scope), stop_unless(0, 7), load("cqe", 1)),),
        lambda r, _: r[0][0] == 7 and r[0][1] != 7,
        seen,
        controller=(Op("dma_write", "cqe", 7, bytes=16),),
        relevant=lambda r: r[0][0] == 7,
    )


def payload(name: str, seen: bool, order: str) -> Shape:
    """The controller writes 4 KiB of data and then a CQE; the lane takes the CQE and reads two words of the data."""
    return Shape(
        f"payload before CQE, {name}",
        ((load("cqe", 0, order, "system"), stop_unless(0, 7), load("data", 1), load("data+4092", 2)),),
        lambda r, _: r[0][0] == 7 and r[0][1:3] != [5, 5],
        seen,
        controller=(Op("dma_write", "data", 5, bytes=4096), Op("dma_write", "cqe", 7, bytes=16)),
        relevant=lambda r: r[0][0] == 7,
    )


def submission(name: str, seen: bool, *before_bell: Op) -> Shape:
    """A lane writes an SQE as two vectors and rings; the controller reads words of both halves."""
    return Shape(
        f"SQE as two vectors, {name}",
        ((Op("quad_store", "sqe", 3), Op("quad_store", "sqe+16", 3), *before_bell, ring("bell"), until("done")),),
        lambda r, _: r[1][1:4] != [3, 3, 3],
        seen,
        controller=(
            Op("doorbell", "bell", reg=0),
            Op("dma_read", "sqe", reg=1),
            Op("dma_read", "sqe+12", reg=2),
            Op("dma_read", "sqe+20", reg=3),
            Op("dma_write", "done", 1),
        ),
        preemptions=3,
    )


def tails(name: str, seen: bool, first: tuple[Op, ...], second: tuple[Op, ...]) -> Shape:
    """Two leaders write a tail each; the controller takes both in order of arrival."""
    return Shape(
        f"MMIO tail, {name}",
        (
            (add("tail", 1, 0), Op("mmio_store", "bell", 1, reg=0), *first, until("done")),
            (*second, add("tail", 1, 0), Op("mmio_store", "bell", 1, reg=0), until("done")),
        ),
        lambda r, _: r[2][1] < r[2][0],
        seen,
        controller=(
            Op("doorbell", "bell", reg=0),
            Op("doorbell", "bell", reg=1),
            Op("dma_write", "done", 1),
        ),
        relevant=lambda r: r[2][0] != 0 and r[2][1] != 0,
        preemptions=3,
    )


SHAPES = (
    # message passing between lanes of one device
    message_passing("MP relaxed", True, (store("x"), store("y")), (load("y"), load("x", 1))),
    message_passing(
        "MP release/acquire", False, (store("x"), store("y", order="release")), (load("y", 0, "acquire"), load("x", 1))
    ),
    message_passing(
        "MP release without acquire", True, (store("x"), store("y", order="release")), (load("y"), load("x", 1))
    ),
    message_passing(
        "MP acquire without release", True, (store("x"), store("y")), (load("y", 0, "acquire"), load("x", 1))
    ),
    message_passing("MP fence/fence", False, (store("x"), fence(), store("y")), (load("y"), fence(), load("x", 1))),
    message_passing("MP fence in the writer only", True, (store("x"), fence(), store("y")), (load("y"), load("x", 1))),
    message_passing("MP fence in the reader only", True, (store("x"), store("y")), (load("y"), fence(), load("x", 1))),
    message_passing(
        "MP release/fence", False, (store("x"), store("y", order="release")), (load("y"), fence(), load("x", 1))
    ),
    message_passing(
        "MP fence/acquire", False, (store("x"), fence(), store("y")), (load("y", 0, "acquire"), load("x", 1))
    ),
    message_passing(
        "MP block fences in one block",
        False,
        (store("x"), fence("block"), store("y")),
        (load("y"), fence("block"), load("x", 1)),
        one_block=True,
    ),
    message_passing(
        "MP block fences across blocks",
        True,
        (store("x"), fence("block"), store("y")),
        (load("y"), fence("block"), load("x", 1)),
    ),
    message_passing(
        "MP block fence to device fence",
        True,
        (store("x"), fence("block"), store("y")),
        (load("y"), fence(), load("x", 1)),
    ),
    # ISA2, and each link weakened
    isa2("ordered", False),
    isa2("writer relaxed", True, w="relaxed"),
    isa2("middle does not acquire", True, ra="relaxed"),
    isa2("middle does not release", True, rr="relaxed"),
    isa2("reader relaxed", True, a="relaxed"),
    # lane, leader, doorbell, controller
    leader("system fence", False, "acquire", fence("system")),
    leader("device fence", True, "acquire", fence("device")),
    leader("no fence", True, "acquire"),
    leader("no acquire", True, "relaxed", worker="relaxed"),
    leader("relaxed then system fence", False, "relaxed", fence("system")),
    # SB, IRIW
    store_buffering("relaxed", True),
    store_buffering("release/acquire", True, st="release", ld="acquire"),
    store_buffering("fences", False, fence()),
    store_buffering("system fences", False, fence("system")),
    store_buffering("block fences across blocks", True, fence("block")),
    iriw("acquire", True),
    iriw("fences", False, fence()),
    # coherence
    Shape(
        "CoRR",
        ((store("x", 1), store("x", 2)), (load("x"), load("x", 1))),
        lambda r, _: r[1][1] < r[1][0],
        False,
        relevant=lambda r: r[1][0] != 0,
    ),
    Shape("CoWR", ((store("x", 2), load("x")), (store("x", 1),)), lambda r, _: r[0][0] == 0, False),
    Shape(
        "CoRW",
        ((load("x"), store("x", 2)), (store("x", 1),)),
        lambda r, m: r[0][0] == 1 and m["x"] == 1,
        False,
        relevant=lambda r: r[0][0] == 1,
    ),
    Shape("CoWW", ((store("x", 1), store("x", 2)), (load("x"),)), lambda _, m: m["x"] != 2, False),
    # one copy of a wide word; several of a vector
    Shape(
        "u64 is not torn",
        ((store("w", 0x1_0000_0001, size=8), store("w", 0x2_0000_0002, size=8)), (load("w", size=8),)),
        lambda r, _: r[1][0] & 0xFFFFFFFF != r[1][0] >> 32,
        False,
        relevant=lambda r: r[1][0] != 0,
    ),
    Shape(
        "two u32 read as u64",
        ((store("w", 1), store("w+4", 1)), (load("w", size=8),)),
        lambda r, _: r[1][0] == 1,
        True,
    ),
    Shape(
        "u64 read as two u32",
        ((store("w", 0x1_0000_0001, size=8),), (load("w"), load("w+4", 1))),
        lambda r, _: r[1][0] != r[1][1],
        True,
    ),
    Shape(
        "vector is torn",
        ((Op("quad_store", "sqe", 1),), (Op("quad_load", "sqe"),)),
        lambda r, _: r[1][0] not in (0, 1111),
        True,
    ),
    # read-modify-write
    Shape(
        "RMW loses nothing",
        ((add("x", reg=0), add("x", reg=1)), (add("x", reg=0),)),
        lambda r, m: m["x"] != 3 or sorted([*r[0][:2], r[1][0]]) != [0, 1, 2],
        False,
    ),
    Shape(
        "RMW loses nothing, 64 bits",
        ((add("w", 0xFFFFFFFF, size=8),), (add("w", 1, size=8),)),
        lambda _, m: m["w"] != 0 or m["w+4"] != 1,
        False,
    ),
    Shape(
        "CAS has one winner",
        ((Op("cas", "x", 5, reg=0),), (Op("cas", "x", 6, reg=0),)),
        lambda r, _: (r[0][0] == 0) == (r[1][0] == 0),
        False,
    ),
    message_passing(
        "MP over relaxed exchange", True, (store("x"), Op("exchange", "y", 1, reg=7)), (load("y"), load("x", 1))
    ),
    Shape(
        "release sequence over RMW",
        (
            (store("x"), store("y", order="release")),
            (add("y"),),
            (load("y", 0, "acquire"), stop_unless(0, 2), load("x", 1)),
        ),
        lambda r, _: r[1][0] == 1 and r[2][0] == 2 and r[2][1] == 0,
        False,
        relevant=lambda r: r[2][0] == 2 and r[1][0] == 1,
    ),
    # barriers
    Shape(
        "barrier orders",
        ((store("x"), Op("barrier")), (Op("barrier"), load("x"))),
        lambda r, _: r[1][0] == 0,
        False,
        one_block=True,
    ),
    Shape(
        "barrier that only controls",
        ((store("x"), Op("barrier")), (Op("barrier"), load("x"))),
        lambda r, _: r[1][0] == 0,
        True,
        one_block=True,
        options={"barrier_orders_memory": 0},
    ),
    Shape(
        "wave sync only controls",
        ((store("x"), Op("wave_sync")), (Op("wave_sync"), load("x"))),
        lambda r, _: r[1][0] == 0,
        True,
        one_block=True,
    ),
    Shape(
        "wave sync that orders",
        ((store("x"), Op("wave_sync")), (Op("wave_sync"), load("x"))),
        lambda r, _: r[1][0] == 0,
        False,
        one_block=True,
        options={"wave_sync_orders_memory": 1},
    ),
    # the device's edge: CQE, payload, SQE, tail
    completion("relaxed", True, "relaxed"),
    completion("acquire", False, "acquire"),
    completion("acquire at device scope", True, "acquire", "device"),
    payload("relaxed", True, "relaxed"),
    payload("acquire", False, "acquire"),
    submission("no fence", True),
    submission("device fence", True, fence("device")),
    submission("system fence", False, fence("system")),
    tails("no order between leaders", True, (), ()),
    tails(
        "the second leader waits for the first",
        False,
        (store("lock", order="release"),),
        (load("lock", 1, "acquire"), stop_unless(1, 1)),
    ),
)

#: Weak outcomes that hardware may show and this model cannot produce: reports must say so.
UNEXPLORED = (
    Shape(
        "LB relaxed",
        ((load("x"), store("y")), (load("y"), store("x"))),
        lambda r, _: r[0][0] == 1 and r[1][0] == 1,
        False,
    ),
    Shape(
        "2+2W relaxed",
        ((store("x", 1), store("y", 2)), (store("y", 1), store("x", 2))),
        lambda _, m: m["x"] == 1 and m["y"] == 1,
        False,
    ),
)
