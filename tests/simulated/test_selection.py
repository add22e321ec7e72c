"""The selector and simulated SDKs: `<vendor>-sim` is the vendor's profile over another root, and nothing else."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tutti_hal.backend import API_VERSION, Finding, Probe, discover
from tutti_hal.errors import ProfileUnknown, ProfileUnusable, TuttiError
from tutti_hal.profile import candidates, parse, select
from tutti_hal.simulated_sdk import GROUP, SimulatedBackend, SimulatedSdk, at_root, discover_simulated

VENDORS = ("hip", "maca", "musa")


def test_each_is_listed_and_usable_only_when_named() -> None:
    found = {one.vendor: one for one in candidates()}
    for vendor in VENDORS:
        one = found[f"{vendor}-sim"]
        assert one.kind == "simulated"
        assert one.usable
        assert one.needs_naming
        assert "simulated" in one.reason
        assert found[vendor].kind == "hardware"


@pytest.mark.parametrize("vendor", VENDORS)
def test_nothing_differs_but_the_root(vendor: str) -> None:
    """The record is the vendor's own, as the SDK's version has it, with its root and its compilers in another place."""
    from tutti_hal.overlay import at_sdk

    profile = select(f"{vendor}-sim")
    root = profile.simulated_root
    assert root is not None
    assert profile.vendor == f"{vendor}-sim"
    assert profile.record.vendor == vendor
    own = next(one.backend for one in discover() if one.name == vendor and one.backend)
    wanted = at_root(at_sdk(own.record, profile.sdk), root)
    assert profile.record == wanted
    assert profile.record.sdk.default == (str(root),)
    assert profile.backend.runtime() is own.runtime()
    assert profile.backend.toolchain() is own.toolchain()
    assert str(profile) == f"{vendor}-sim:{profile.arch}"


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_run_time_compiler_of_the_machine_is_not_taken(vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tutti_hal.toolchain import rtc

    own = next(one.backend for one in discover() if one.name == vendor and one.backend).record.toolchain.rtc
    assert own is not None
    monkeypatch.setattr("ctypes.util.find_library", lambda stem: f"lib{stem}.so")
    profile, tried = select(f"{vendor}-sim"), list[str]()
    rtc.find(profile.record, tried)
    assert tried
    assert all(Path(place).is_relative_to(profile.simulated_root or "/nowhere") for place in tried)


def test_arch_and_version_are_chosen_by_name() -> None:
    profile = select("musa-sim:mp_22@4.3.3")
    assert (profile.arch, profile.sdk, profile.record.archs[profile.arch].wave_width) == ("mp_22", "4.3.3", 128)
    assert select("musa-sim:mp_22@4").sdk == "4.3.3"
    assert select("musa-sim:mp_22@4").simulated_root == profile.simulated_root
    assert select("musa-sim").sdk == "5.2.0"


def test_what_is_not_simulated_is_refused_with_what_is() -> None:
    with pytest.raises(ProfileUnusable, match=r"5\.2\.0, 4\.3\.3"):
        select("musa-sim:mp_22@9.9")
    with pytest.raises(ProfileUnknown, match="mp_22"):
        select("musa-sim:mp_23")
    with pytest.raises(ProfileUnknown, match="musa-sim"):
        select("musa-sin")


def test_another_record_is_put_over_the_same_root() -> None:
    profile = select("musa-sim:mp_22@4.3.3")
    own = next(one.backend for one in discover() if one.name == "musa" and one.backend)
    assert profile.with_record(own.record) == profile


def point(name: str, value: str = "some.module:SDK") -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def sdk(vendor: str = "musa", version: int = API_VERSION, root: Path = Path("/nowhere")) -> SimulatedSdk:
    return SimulatedSdk(vendor, version, lambda: ["mp_31"], lambda: ["5.2.0"], lambda *_: root)


@pytest.fixture
def real_musa() -> Finding:
    return next(one for one in discover() if one.name == "musa")


@pytest.mark.parametrize(
    ("thing", "problem"),
    [
        (object(), "is not a SimulatedSdk"),
        (sdk(version=API_VERSION + 1), "written for backend API"),
        (sdk("maca"), "calls itself an SDK of 'maca'"),
    ],
    ids=["kind", "version", "name"],
)
def test_a_broken_offer_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, real_musa: Finding, thing: object, problem: str
) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda _: thing)
    (finding,) = discover_simulated({"musa": real_musa}, [point("musa")])
    assert finding.backend is None
    assert problem in finding.problem


def test_an_offer_without_a_backend_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EntryPoint, "load", lambda _: sdk("acme"))
    (finding,) = discover_simulated({}, [point("acme")])
    assert "no usable backend 'acme'" in finding.problem


def backend(real: Finding, root: Path) -> SimulatedBackend:
    assert real.backend is not None
    return SimulatedBackend(real.backend.descriptor, sdk(root=root))


def test_a_root_that_the_vendors_detection_does_not_take_is_refused(real_musa: Finding, tmp_path: Path) -> None:
    """An empty folder is no SDK: the vendor's own code says so, and the selector tells it."""
    finding = Finding("musa-sim", "a test", backend(real_musa, tmp_path), "")
    with pytest.raises(ProfileUnusable, match="musa"):
        select("musa-sim", findings=[finding])


def test_a_machine_without_a_compiler_cannot_simulate(
    real_musa: Finding, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    probe: Probe = backend(real_musa, tmp_path).probe
    assert not probe.usable
    assert "compiler" in probe.reason


def test_an_sdk_that_cannot_be_read_is_not_usable(real_musa: Finding) -> None:
    def broken() -> list[str]:
        raise OSError("no such file")

    assert real_musa.backend is not None
    one = SimulatedBackend(
        real_musa.backend.descriptor, SimulatedSdk("musa", API_VERSION, broken, broken, lambda *_: Path())
    )
    assert not one.probe.usable
    assert "no such file" in one.probe.reason


def test_the_name_is_in_the_grammar() -> None:
    assert str(parse("musa-sim:mp_22@4.3.3")) == "musa-sim:mp_22@4.3.3"
    with pytest.raises(TuttiError):
        parse("musa_sim@5")
