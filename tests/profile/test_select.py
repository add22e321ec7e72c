"""Selection: the order, the refusals, and what each refusal says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.profile.conftest import Plugin, found
from tutti_hal import profile
from tutti_hal.errors import ProfileAmbiguous, ProfileError, ProfileUnknown, ProfileUnusable

NAME = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)
SDK = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}", fullmatch=True)


@given(NAME, st.none() | NAME, st.none() | SDK)
def test_a_name_survives_parsing(vendor: str, arch: str | None, sdk: str | None) -> None:
    name = profile.Name(vendor, arch, sdk if arch else None)
    assert profile.parse(str(name)) == name


def test_a_name_in_capitals_is_asked_back_in_small_letters() -> None:
    with pytest.raises(ProfileUnknown, match="did you mean 'host:sim-w32'"):
        profile.parse("HOST:sim-w32")


@pytest.mark.parametrize(
    "text", ["", ":", "host:", "host:sim-w32@", "host@13", "a:b:c", "HOST", "host sim", "host:a@x"]
)
def test_a_malformed_name_is_refused(text: str) -> None:
    with pytest.raises(ProfileUnknown, match=r"vendor\[:arch\[@sdk\]\]"):
        profile.parse(text)


def test_argument_outranks_variable_outranks_pin(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    all_of_them = found(plugin("alpha"), plugin("beta"), plugin("gamma"))
    monkeypatch.setattr(profile, "pinned", lambda: profile.Pin("gamma:sm_90", None, "no compiler"))
    variable = {profile.VARIABLE: "beta:sm_90"}

    by_argument = profile.select("alpha:sm_80", findings=all_of_them, environ=variable)
    assert (by_argument.vendor, by_argument.arch, by_argument.chosen_by) == ("alpha", "sm_80", "argument")
    by_variable = profile.select(findings=all_of_them, environ=variable)
    assert (by_variable.vendor, by_variable.chosen_by) == ("beta", "variable")
    by_pin = profile.select(findings=all_of_them, environ={})
    assert (by_pin.vendor, by_pin.chosen_by) == ("gamma", "pinned")
    empty = profile.select("", findings=all_of_them, environ={profile.VARIABLE: ""})
    assert empty.chosen_by == "pinned"


def test_the_only_usable_hardware_vendor_is_taken(plugin: Plugin) -> None:
    all_of_them = found(plugin("alpha", usable=False), plugin("beta", archs=("sm_90", "sm_80")))
    chosen = profile.select(findings=all_of_them, environ={})
    assert (chosen.vendor, chosen.arch, chosen.archs) == ("beta", "sm_90", ("sm_90",))
    assert chosen.chosen_by == "only usable hardware"


@pytest.mark.parametrize("kind", ["host", "simulated"])
def test_what_is_not_hardware_is_never_taken_unnamed(plugin: Plugin, kind: str) -> None:
    all_of_them = found(plugin("alpha", kind=kind, archs=("sm_80",)), plugin("beta", usable=False))
    with pytest.raises(ProfileAmbiguous, match="no hardware vendor is usable") as refused:
        profile.select(findings=all_of_them, environ={})
    assert "alpha: usable when named: the probe of alpha" in str(refused.value)
    assert "beta: not usable: the probe of beta" in str(refused.value)
    assert profile.select("alpha", findings=all_of_them, environ={}).vendor == "alpha"


def test_two_usable_vendors_are_ambiguous(plugin: Plugin) -> None:
    all_of_them = found(plugin("alpha"), plugin("beta"), plugin("gamma", usable=False))
    with pytest.raises(ProfileAmbiguous, match="several hardware vendors are usable") as refused:
        profile.select(findings=all_of_them, environ={})
    for vendor in ("alpha: usable", "beta: usable", "gamma: not usable"):
        assert vendor in str(refused.value)
    assert f"{profile.VARIABLE}=alpha" in refused.value.fix


def test_a_named_vendor_that_is_unusable_is_refused_and_never_replaced(plugin: Plugin) -> None:
    all_of_them = found(plugin("alpha", usable=False), plugin("beta"))
    with pytest.raises(ProfileUnusable, match="the probe of alpha") as refused:
        profile.select("alpha:sm_80", findings=all_of_them, environ={})
    assert "beta: usable" in str(refused.value)


def test_generation_needs_no_usable_vendor(plugin: Plugin) -> None:
    all_of_them = found(plugin("alpha", usable=False))
    resolved = profile.resolve("alpha", findings=all_of_them, environ={})
    assert resolved.archs == ("sm_80", "sm_90")
    assert profile.resolve("alpha:sm_90", findings=all_of_them, environ={}).archs == ("sm_90",)


def test_running_needs_a_known_arch(plugin: Plugin) -> None:
    with pytest.raises(ProfileUnusable, match="no device was found whose architecture") as refused:
        profile.select("alpha", findings=found(plugin("alpha")), environ={})
    assert "alpha:sm_80, alpha:sm_90" in refused.value.fix


def test_an_arch_that_the_record_lacks_does_not_count_as_found(plugin: Plugin) -> None:
    chosen = profile.select("alpha", findings=found(plugin("alpha", archs=("sm_10", "sm_90"))), environ={})
    assert chosen.arch == "sm_90"


def test_a_device_that_the_record_does_not_know_is_said(plugin: Plugin) -> None:
    with pytest.raises(ProfileUnusable, match="its record has no arch sm_10, found here"):
        profile.select("alpha", findings=found(plugin("alpha", archs=("sm_10",))), environ={})


@pytest.mark.parametrize(("name", "near"), [("alhpa", "alpha"), ("btea", "beta")])
def test_a_misspelt_vendor_gets_the_near_miss(plugin: Plugin, name: str, near: str) -> None:
    with pytest.raises(ProfileUnknown, match=f"did you mean '{near}'") as refused:
        profile.select(name, findings=found(plugin("alpha"), plugin("beta")), environ={})
    assert refused.value.id == "TT-PROFILE-UNKNOWN"


def test_a_misspelt_arch_gets_the_near_miss(plugin: Plugin) -> None:
    with pytest.raises(ProfileUnknown, match="has no arch 'sm_91'; did you mean 'sm_90'"):
        profile.select("alpha:sm_91", findings=found(plugin("alpha")), environ={})


def test_the_installed_host_is_suggested() -> None:
    with pytest.raises(ProfileUnknown, match="did you mean 'host'"):
        profile.select("hots", environ={})
    with pytest.raises(ProfileUnknown, match="the variable TUTTI_PROFILE"):
        profile.select(environ={profile.VARIABLE: "hots"})


def test_the_installed_host_runs_when_named() -> None:
    chosen = profile.select("host", environ={})
    assert (chosen.vendor, chosen.arch, str(chosen)) == ("host", "threads-w32", "host:threads-w32")
    assert profile.select("host:sim-w128", environ={}).record.archs["sim-w128"].wave_width == 128


@pytest.mark.parametrize(("asked", "found_sdk"), [("13", "13.0"), ("13.0", "13.0"), ("13.0", "13.0.2")])
def test_an_sdk_that_matches_is_taken(plugin: Plugin, asked: str, found_sdk: str) -> None:
    all_of_them = found(plugin("alpha", sdk=found_sdk))
    assert profile.select(f"alpha:sm_80@{asked}", findings=all_of_them, environ={}).sdk == asked


@pytest.mark.parametrize(("asked", "found_sdk"), [("12", "13.0"), ("1", "13.0"), ("13.0.2", "13.0"), ("13", None)])
def test_another_sdk_is_refused(plugin: Plugin, asked: str, found_sdk: str | None) -> None:
    all_of_them = found(plugin("alpha", sdk=found_sdk))
    for choose in (profile.select, profile.resolve):
        with pytest.raises(ProfileUnusable, match="SDK"):
            choose(f"alpha:sm_80@{asked}", findings=all_of_them, environ={})


def test_nothing_installed_is_said() -> None:
    with pytest.raises(ProfileAmbiguous, match="none is installed"):
        profile.select(findings=[], environ={})


def test_only_the_named_vendor_is_probed(plugin: Plugin) -> None:
    loud = plugin("beta", probe="raise AssertionError('probed')")
    all_of_them = found(plugin("alpha", archs=("sm_80",)), loud)
    assert profile.select("alpha", findings=all_of_them, environ={}).vendor == "alpha"
    assert "beta: not usable: its probe raised AssertionError: probed" in _refusal(all_of_them)


def _refusal(all_of_them: list[profile.Finding]) -> str:
    with pytest.raises(ProfileError) as refused:
        profile.select("nobody", findings=all_of_them, environ={})
    return str(refused.value)
