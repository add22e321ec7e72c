"""The suite's table of instructions, on listings: those of a right compiler pass, and each part left out fails."""

from __future__ import annotations

import re

import pytest

from tutti_hal.conformance_tests.cases.l1_generate.listing_patterns import (
    MACHINES,
    PROCESSORS,
    SIMULATED,
    Family,
    acquired,
    doorbells,
    family_of,
    follow,
    instructions,
    relayed,
    straight,
)
from tutti_hal.conformance_tests.cases.l1_generate.listing_promises import promised
from tutti_hal.conformance_tests.cases.l1_generate.listing_template import FAMILIES, kernel_name, unit_text
from tutti_hal.spec import load_spec

pytestmark = pytest.mark.isa

GFX90A, GFX942, GFX1100 = (PROCESSORS[224][flags] for flags in (0x3F, 0x4C, 0x41))
SASS = MACHINES[190]

#: What clang-19 made of: store an entry, fence, ring; the listing of llvm-objdump.
ENTRY = {
    "gfx90a": """
	s_load_dwordx4 s[0:3], s[4:5], 0x0                         // 000000001600: C00A0002 00000000
	s_waitcnt lgkmcnt(0)
	global_store_dwordx4 v0, v[4:7], s[0:1]
	buffer_wbl2
	s_waitcnt vmcnt(0)
	buffer_invl2
	buffer_wbinvl1_vol
	global_store_dword v0, v2, s[2:3]
	s_endpgm
""",
    "gfx942": """
	s_waitcnt lgkmcnt(0)
	global_store_dwordx4 v0, v[4:7], s[0:1] sc0 sc1
	buffer_wbl2 sc0 sc1
	s_waitcnt vmcnt(0)
	buffer_inv sc0 sc1
	global_store_dword v0, v2, s[2:3] sc0 sc1
	s_endpgm
""",
    "gfx1100": """
	s_waitcnt lgkmcnt(0)
	global_store_b128 v0, v[4:7], s[0:1]
	s_waitcnt_vscnt null, 0x0
	buffer_gl1_inv
	buffer_gl0_inv
	global_store_b32 v0, v2, s[2:3]
	s_endpgm
""",
}
FAMILIES_OF = {"gfx90a": GFX90A, "gfx942": GFX942, "gfx1100": GFX1100}


@pytest.mark.parametrize("name", ENTRY)
def test_an_entry_and_its_doorbell(name: str) -> None:
    family = FAMILIES_OF[name]
    code = instructions(family, ENTRY[name])
    assert code[0].startswith("s_")
    assert len(code) >= 6
    assert straight(family, code) == (1, True)
    assert family.doorbell is not None
    assert family.doorbell.search(code[-2])


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        ("gfx90a", "buffer_wbl2"),
        ("gfx90a", "s_waitcnt vmcnt(0)"),
        ("gfx942", "buffer_wbl2 sc0 sc1"),
        ("gfx942", "s_waitcnt vmcnt(0)"),
        ("gfx1100", "s_waitcnt_vscnt null, 0x0"),
    ],
)
def test_each_part_of_a_release_is_needed(name: str, left_out: str) -> None:
    family = FAMILIES_OF[name]
    assert straight(family, instructions(family, ENTRY[name].replace(left_out, "s_nop 0")))[1] is False


def test_invalidates_are_no_release() -> None:
    """On gfx1100 the release is the wait on stores: what an acquire does to caches publishes nothing."""
    text = ENTRY["gfx1100"].replace("\ts_waitcnt_vscnt null, 0x0\n", "")
    assert "buffer_gl1_inv" in text
    assert straight(GFX1100, instructions(GFX1100, text)) == (1, False)


def test_a_narrow_release_is_none() -> None:
    text = ENTRY["gfx942"].replace("buffer_wbl2 sc0 sc1", "buffer_wbl2 sc1")
    assert straight(GFX942, instructions(GFX942, text)) == (1, False)


RELAY = """
	global_load_dword v1, v0, s[0:1] sc1
	s_waitcnt vmcnt(0)
	buffer_inv sc1
	buffer_wbl2 sc0 sc1
	{wait}
	buffer_inv sc0 sc1
	global_store_dword v0, v1, s[2:3] sc0 sc1
"""


def test_writing_back_must_have_ended() -> None:
    """A lane that rings for others has no store of its own to wait for, and must wait for the writing back."""
    right = instructions(GFX942, RELAY.format(wait="s_waitcnt vmcnt(0)"))
    wrong = instructions(GFX942, RELAY.format(wait="s_nop 0"))
    assert relayed(GFX942, right)
    assert not relayed(GFX942, wrong)
    assert not relayed(GFX942, [*right, "global_store_dword v0, v1, s[4:5]"])


PLACED = """
; /tmp/x/gpu_vendor/v_primitives.cuh:12
	global_store_dwordx4 v0, v[4:7], s[0:1]
; /tmp/x/ring.cu:77
	global_store_dword v0, v9, s[4:5]
; /tmp/x/gpu_vendor/v_primitives.cuh:31
	buffer_wbl2
	s_waitcnt vmcnt(0)
	buffer_invl2
	buffer_wbinvl1_vol
; /tmp/x/gpu_vendor/v_primitives.cuh:52
	global_store_dword v0, v2, s[2:3]
"""
PLACES = [("store.vector", 11, 13), ("mmio.store", 50, 53)]


def test_a_doorbell_is_told_by_its_line() -> None:
    code = instructions(GFX90A, PLACED, PLACES)
    assert [one for one in code if "@" in one] == [
        "global_store_dwordx4 v0, v[4:7], s[0:1] @store.vector",
        "global_store_dword v0, v2, s[2:3] @mmio.store",
    ]
    assert doorbells(GFX90A, code) == [True]
    assert doorbells(GFX90A, instructions(GFX90A, PLACED.replace("buffer_wbl2", "s_nop 0"), PLACES)) == [False]
    late = PLACED.replace("primitives.cuh:12", "other.cuh:12").replace("ring.cu:77", "x_primitives.cuh:12")
    assert doorbells(GFX90A, instructions(GFX90A, late, PLACES)) == [True]
    assert doorbells(GFX90A, instructions(GFX90A, PLACED)) == []


COMPLETION = {
    "SASS": (
        SASS,
        ["LD.E.STRONG.SYS R3, desc[UR4][R2.64+0xc]", "CCTL.IVALL", "LD.E.STRONG.SYS R4, desc[UR4][R2.64+0x8]"],
        "CCTL.IVALL",
    ),
    "gfx90a": (
        GFX90A,
        [
            "global_load_dword v1, v0, s[0:1] offset:12 glc @load.system",
            "s_waitcnt vmcnt(0)",
            "buffer_invl2",
            "buffer_wbinvl1_vol",
            "global_load_dword v2, v0, s[0:1] offset:8 glc @load.system",
        ],
        "buffer_invl2",
    ),
    "gfx942": (
        GFX942,
        [
            "global_load_dword v1, v0, s[0:1] offset:12 sc0 sc1 @load.system",
            "s_waitcnt vmcnt(0)",
            "buffer_inv sc0 sc1",
            "global_load_dword v2, v0, s[0:1] offset:8 sc0 sc1 @load.system",
        ],
        "buffer_inv sc0 sc1",
    ),
    "gfx1100": (
        GFX1100,
        [
            "global_load_b32 v1, v0, s[0:1] offset:12 glc @load.system",
            "s_waitcnt vmcnt(0)",
            "buffer_gl1_inv",
            "buffer_gl0_inv",
            "global_load_b32 v2, v0, s[0:1] offset:8 glc @load.system",
        ],
        "buffer_gl0_inv",
    ),
    "simulated": (
        SIMULATED[62],
        ["mov $0x2,%r8d", "mov $0x1,%ecx", "call *0x78(%rax)", "xor %ecx,%ecx", "call *0x78(%rax)"],
        "mov $0x1,%ecx",
    ),
}


@pytest.mark.parametrize("name", COMPLETION)
def test_a_completion(name: str) -> None:
    family, code, acquire = COMPLETION[name]
    assert acquired(family, code)
    assert not acquired(family, [one for one in code if one != acquire])


def test_a_fence_between_loads_is_no_acquire_of_the_first() -> None:
    code = ["LD.E.STRONG.SYS R3, [R2]", "MEMBAR.SC.GPU", "CCTL.IVALL", "LD.E.STRONG.SYS R4, [R2]"]
    assert not acquired(SASS, code)


def test_an_unknown_instruction_set_is_said() -> None:
    with pytest.raises(LookupError, match="machine 224"):
        family_of(224, False, 0x36)
    assert family_of(224, False, 0x53F) is GFX90A


def test_follow_is_in_order() -> None:
    patterns = tuple(re.compile(one) for one in ("^a", "^b"))
    assert follow(patterns, ["x", "a", "x", "b"])
    assert not follow(patterns, ["b", "a"])


@pytest.mark.parametrize("family", [SASS, GFX90A, GFX942, GFX1100], ids=lambda one: one.name)
def test_every_ordered_primitive_has_a_promise(family: Family) -> None:
    members = [one for one in load_spec().primitives.values() if one.family in FAMILIES]
    assert len(members) > 40
    for one in members:
        assert promised(family, one.family, one.axes), one.id
    assert promised(MACHINES[62], "fence", {"scope": "system"}) is None


def test_every_kernel_of_a_listing_has_a_name_of_its_own() -> None:
    members = [one for one in load_spec().primitives.values() if one.family in FAMILIES]
    names = [kernel_name(one.id) for one in members]
    assert len(set(names)) == len(names)
    assert all(unit_text(members).count(f'"{name}"') == 1 for name in names)
