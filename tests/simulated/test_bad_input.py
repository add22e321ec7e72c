"""What a machine may have instead of a working SDK: each is a typed error, which says what is there and what to do.

A copy of a simulated root is broken, and the product opens it as it would on hardware. The table in docs/simulated.md
has the same rows.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tutti_hal.backend import discover
from tutti_hal.codegen.render import render
from tutti_hal.errors import (
    ArchRefused,
    NumbersDiffer,
    SdkDefective,
    SdkForeign,
    SdkIncomplete,
    SdkMissing,
    SymbolMissing,
    TuttiError,
    VendorsMixed,
    WaveWidthWrong,
)
from tutti_hal.overlay import at_sdk
from tutti_hal.paths import package_file
from tutti_hal.profile import Profile, select
from tutti_hal.record import Record
from tutti_hal.simulated_sdk import at_root
from tutti_hal.toolchain import toolchain_of
from tutti_hal.toolchain.compiler import compile_unit

VENDORS = ("musa", "maca", "hip")
#: Whose marker the root of each has instead, and what the compilers of each are told by.
OTHER = {"musa": "maca", "maca": "hip", "hip": "musa"}
MACRO = {"musa": "__MUSACC__", "maca": "__MACA__", "hip": "__HIP__"}


def own_record(vendor: str) -> Record:
    return next(one.backend.record for one in discover() if one.name == vendor and one.backend)


def at(profile: Profile, root: Path, change: Callable[[Record], Record] = lambda record: record) -> Profile:
    """The profile over another root; ``change`` is made to the record as it is for the SDK."""
    record = at_root(at_sdk(own_record(profile.record.vendor), profile.sdk), root)
    return replace(profile, record=change(record), simulated_root=root)


@pytest.fixture(params=VENDORS)
def profile(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """A vendor's simulated profile over a root of its own, which a test may break."""
    monkeypatch.setenv("TUTTI_CACHE_DIR", str(tmp_path / "cache"))
    with monkeypatch.context() as kept:
        kept.delenv("TUTTI_CACHE_DIR")
        made = select(f"{request.param}-sim")
    assert made.simulated_root is not None
    return at(made, Path(shutil.copytree(made.simulated_root, tmp_path / "root", symlinks=True)))


def root_of(profile: Profile) -> Path:
    assert profile.simulated_root is not None
    return profile.simulated_root


def runtime_of(profile: Profile) -> object:
    return profile.backend.runtime().open_runtime(profile)


# ---- one change each


def absent(profile: Profile, _: pytest.MonkeyPatch) -> Profile:
    shutil.rmtree(root_of(profile))
    return profile


def anothers(profile: Profile, monkeypatch: pytest.MonkeyPatch) -> Profile:
    """Named by the vendor's variable: a default folder without its marker is passed over."""
    root, vendor = root_of(profile), profile.record.vendor
    own, other = own_record(vendor).sdk, own_record(OTHER[vendor]).sdk
    (root / own.marker).unlink()
    marker = root / other.marker
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    monkeypatch.setenv(own.env[0], str(root))
    return at(profile, root, lambda record: replace(record, sdk=replace(record.sdk, env=own.env[:1])))


def half_installed(profile: Profile, _: pytest.MonkeyPatch) -> Profile:
    shutil.rmtree(root_of(profile) / "lib")
    return profile


def defective(profile: Profile, _: pytest.MonkeyPatch) -> Profile:
    one = profile.record.quirks[0]
    planted = replace(one, id="planted.defect", sdk=f"=={profile.sdk}", changes={}, refuse="Install the next one.")
    return at(profile, root_of(profile), lambda record: replace(record, quirks=(*record.quirks, planted)))


def without_a_symbol(profile: Profile, _: pytest.MonkeyPatch) -> Profile:
    symbol = str(profile.record.host_api.symbol("StreamSynchronize")).encode()
    changed = 0
    for library in {file.resolve() for file in (root_of(profile) / "lib").iterdir()}:
        image = library.read_bytes()
        changed += image.count(b"\0" + symbol + b"\0")
        library.write_bytes(image.replace(b"\0" + symbol + b"\0", b"\0" + b"x" * len(symbol) + b"\0"))
    assert changed
    return profile


def another_number(profile: Profile, _: pytest.MonkeyPatch) -> Profile:
    name, changed = profile.record.errors.spelling("InvalidValue"), 0
    for header in (root_of(profile) / "include").rglob("*.h"):
        text, times = re.subn(rf"\b{name}(\s*=\s*|\s+)\d+", rf"{name}\g<1>77", header.read_text(encoding="utf-8"))
        header.write_text(text, encoding="utf-8")
        changed += times
    assert changed
    return profile


def another_width(profile: Profile) -> Profile:
    arch = profile.record.archs[profile.arch]
    wrong = replace(arch, wave_width=96 - arch.wave_width if arch.wave_width != 128 else 64)
    return at(profile, root_of(profile), lambda record: replace(record, archs={**record.archs, profile.arch: wrong}))


@dataclass(frozen=True)
class Row:
    """What is broken, the error, and what it must say of it."""

    broken: Callable[[Profile, pytest.MonkeyPatch], Profile]
    error: type[TuttiError]
    id: str
    found: str


OPENING = {
    "absent": Row(absent, SdkMissing, "TT-SDK-MISSING", r"absent|no folder"),
    "another vendor's": Row(anothers, SdkForeign, "TT-SDK-FOREIGN", r"it is the SDK of (maca|hip|musa)"),
    "half installed": Row(half_installed, SdkIncomplete, "TT-SDK-INCOMPLETE", r"half installed"),
    "a version with a defect": Row(defective, SdkDefective, "TT-SDK-DEFECTIVE", r"planted\.defect"),
    "a symbol missing": Row(without_a_symbol, SymbolMissing, "TT-RUNTIME-SYMBOL", r"StreamSynchronize \(\w+\)"),
    "a number that differs": Row(another_number, NumbersDiffer, "TT-SDK-NUMBERS", r"InvalidValue\b.*77"),
}


@pytest.mark.parametrize("what", OPENING)
def test_what_is_no_working_sdk_is_told(what: str, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> None:
    row = OPENING[what]
    broken = row.broken(profile, monkeypatch)
    with pytest.raises(row.error) as refused:
        runtime_of(broken)
    assert (type(refused.value), refused.value.id) == (row.error, row.id)
    assert re.search(row.found, refused.value.found, re.DOTALL), refused.value.found
    assert refused.value.fix.strip()


def test_the_whole_root_opens(profile: Profile) -> None:
    """The control: what the rows break works before."""
    runtime = profile.backend.runtime().open_runtime(profile)
    assert runtime.ordinals(profile.arch)


def test_waves_of_another_width(profile: Profile) -> None:
    wrong = another_width(profile)
    with pytest.raises(WaveWidthWrong, match=r"waves have (32|64|128) lanes, the record says") as refused:
        wrong.backend.runtime().open_runtime(wrong).ordinals(wrong.arch)
    assert refused.value.id == "TT-RUNTIME-WAVE-WIDTH"


def test_an_arch_that_the_compiler_refuses(profile: Profile, tmp_path: Path) -> None:
    chain = toolchain_of(profile)
    known = profile.record.archs[profile.arch]
    strange = replace(known, name=known.name + "99", vars={**known.vars, "arch": known.name + "99"})
    with pytest.raises(ArchRefused, match=f"{known.name}99") as refused:
        compile_unit(chain, chain.find(), strange, render(profile.record, known, "saxpy"), tmp_path)
    assert refused.value.id == "TT-BUILD-ARCH"


def test_macros_of_two_vendors_in_one_translation_unit(profile: Profile, tmp_path: Path) -> None:
    macro = MACRO[OTHER[profile.record.vendor]]
    tools = profile.record.toolchain
    both = at(
        profile,
        root_of(profile),
        lambda record: replace(record, toolchain=replace(record.toolchain, flags=(*tools.flags, f"-D{macro}=1"))),
    )
    chain, arch = toolchain_of(both), both.record.archs[both.arch]
    with pytest.raises(VendorsMixed, match="macros of two vendors in one translation unit") as refused:
        compile_unit(chain, chain.find(), arch, render(both.record, arch, "saxpy"), tmp_path)
    assert refused.value.id == "TT-BUILD-VENDORS"


def test_the_page_has_every_row() -> None:
    page = package_file("docs", "simulated.md").read_text(encoding="utf-8")
    ids = [row.id for row in OPENING.values()]
    for one in (*ids, "TT-RUNTIME-WAVE-WIDTH", "TT-BUILD-ARCH", "TT-BUILD-VENDORS", "TT-SPEC"):
        assert f"`{one}`" in page
