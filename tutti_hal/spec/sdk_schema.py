"""The schema of the SDK and toolchain parts of a record, and the step to their frozen form."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tutti_hal.record_sdk import DeviceFiles, Rtc, Sdk, SdkVersion, Toolchain
from tutti_hal.spec.evidence import PROVEN, proven
from tutti_hal.spec.schema import Int, ListOf, MapOf, Struct, Text

_NAMES = ListOf(Text(pattern=r"\w+", noun="variable"))

SDK = Struct(
    {"env": ListOf(Text()), "default": ListOf(Text())},
    {
        "marker": Text(),
        "lib": ListOf(Text(), least=1),
        "include": ListOf(Text(), least=1),
        "version": Struct({"file": Text(), "pattern": Text()}, {"radix": Int(10)}),
        "devices": ListOf(Text()),
        "described": Struct(
            {"files": Text(), "pattern": Text(), "archs": MapOf(Text(), pattern=r"\w+", noun="identity")}
        ),
        "install": Text(),
        **PROVEN,
    },
)

TOOLCHAIN = Struct(
    {
        "drivers": ListOf(Text(), least=1, unique=True),
        "suffix": Text(pattern=r"\.\w+", noun="suffix"),
        "output": Text(pattern=r"\.\w+", noun="suffix"),
        "flags": ListOf(Text()),
        "version_flag": Text(),
        "version_pattern": Text(),
    },
    {
        "driver_env": _NAMES,
        "subdirs": ListOf(Text()),
        "arch_flags": ListOf(Text()),
        "output_flags": ListOf(Text()),
        "environ": MapOf(Text(), pattern=r"\w+", noun="variable"),
        "prefer": Text(known=("offline", "rtc"), noun="kind of compiler"),
        "rtc": proven(
            {"libraries": ListOf(Text(), least=1), "prefix": Text(), "code": Text(), "flags": ListOf(Text())}
        ),
        **PROVEN,
    },
)


def _frozen(value: Mapping[str, str]) -> Mapping[str, str]:
    return MappingProxyType(dict(value))


def build_sdk(value: Mapping[str, Any]) -> Sdk:
    """Freeze the part ``sdk``."""
    version, files = value.get("version"), value.get("described")
    given = {name: value[name] for name in ("marker", "lib", "include", "devices", "install") if name in value}
    return Sdk(
        value["env"],
        value["default"],
        **given,
        version=None if version is None else SdkVersion(version["file"], version["pattern"], version.get("radix", 0)),
        described=None if files is None else DeviceFiles(files["files"], files["pattern"], _frozen(files["archs"])),
    )


def build_toolchain(value: Mapping[str, Any]) -> Toolchain:
    """Freeze the part ``toolchain``."""
    rtc = value.get("rtc")
    return Toolchain(
        drivers=value["drivers"],
        driver_env=value.get("driver_env", ()),
        subdirs=value.get("subdirs", ()),
        suffix=value["suffix"],
        output=value["output"],
        flags=value["flags"],
        arch_flags=value.get("arch_flags", ()),
        output_flags=value.get("output_flags", ()),
        version_flag=value["version_flag"],
        version_pattern=value["version_pattern"],
        environ=_frozen(value.get("environ", {})),
        rtc=None if rtc is None else Rtc(rtc["libraries"], rtc["prefix"], rtc["code"], rtc["flags"]),
        prefer_rtc=value.get("prefer") == "rtc",
    )
