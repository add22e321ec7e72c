"""A vendor's host ABI as its ``abi.yaml`` has it, for one version of the SDK.

An entry with ``sdk: ">=5.0,<6.0"`` is there only in versions that meet all comparisons; a list of entries under one
name holds the entry's forms in different versions. Nothing of this is read by the product, nor read from its records.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tutti_hal.versions import satisfies

FILE = "abi.yaml"


@dataclass(frozen=True)
class Arch:
    """One architecture of the simulated devices.

    Attributes:
        title: what the device calls itself.
        wave: lanes of a wave: 32, 64 or 128.
        major: of its compute capability.
        minor: of its compute capability.
        shared_bytes: shared memory of a block.
        pci_device: PCI device id.
        registers: of a block.
        described: what the vendor's kernel driver calls it in its files; empty where that is not known.
    """

    name: str
    title: str
    wave: int
    major: int
    minor: int
    shared_bytes: int
    pci_device: int
    registers: int
    described: str = ""


@dataclass(frozen=True)
class Row:
    """A number of the vendor's.

    Attributes:
        name: as the vendor's headers spell it.
        value: the number.
        means: what of HOST it is: canonical names, or a plain number of an operation's own; empty: nothing.
    """

    name: str
    value: int
    means: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class Group:
    """Numbers that belong together: an enum where ``type`` is its C name, else macros."""

    type: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Attribute:
    """A device attribute, and where its value comes from: ``host.Name``, a fact of the device, or a plain number."""

    name: str
    value: int
    source: str


@dataclass(frozen=True)
class Field:
    """A field of a struct: byte offset, C type (perhaps ``char[N]``), and where its value comes from."""

    name: str
    offset: int
    type: str
    source: str


@dataclass(frozen=True)
class Layout:
    """A struct of the vendor's: its size and the fields that are filled; ``typedef``: a plain name for it, or empty."""

    name: str
    role: str
    bytes: int
    fields: tuple[Field, ...]
    typedef: str


@dataclass(frozen=True)
class Function:
    """An exported function.

    Attributes:
        name: the symbol.
        operation: what it does: a function of ``native/operations_*.h``.
        returns: C type.
        parameters: C text of the parameters, without parentheses.
        layout: name of the struct that it fills, or empty.
        before_init: whether it may be called before the driver was initialised.
    """

    name: str
    operation: str
    returns: str
    parameters: str
    layout: str
    before_init: bool


@dataclass(frozen=True)
class Library:
    """A shared library: generated from ``functions``, or compiled from ``source`` in ``native/``."""

    file: str
    links: tuple[str, ...] = ()
    functions: str = ""
    source: str = ""
    driver: str = ""
    init: str = ""


@dataclass(frozen=True)
class Header:
    """A header: what of the ABI it declares."""

    file: str
    guard: str
    include: tuple[str, ...] = ()
    macros: Mapping[str, str] | None = None
    errors: bool = False
    attributes: bool = False
    structs: bool = False
    numbers: tuple[str, ...] = ()
    types: str = ""
    functions: str = ""


@dataclass(frozen=True)
class Abi:
    """A vendor's host ABI in one version of its SDK."""

    vendor: str
    title: str
    sdk: str
    sdk_number: int
    driver_needs_init: bool
    unregistered_refused: bool
    no_device: int
    error_prefix: str
    priorities: Mapping[str, int]
    pci: Mapping[str, int]
    device_nodes: tuple[str, ...]
    archs: Mapping[str, Arch]
    default_arch: str
    libraries: tuple[Library, ...]
    files: Mapping[str, str]
    device_files: Mapping[str, str]
    headers: tuple[Header, ...]
    types: Mapping[str, str]
    errors: Group
    unknown_error: int
    attributes: tuple[Attribute, ...]
    attribute_type: str
    numbers: Mapping[str, Group]
    structs: tuple[Layout, ...]
    functions: Mapping[str, tuple[Function, ...]]
    absent: Mapping[str, str]


def table(folder: Path) -> dict[str, Any]:
    """The text of an ``abi.yaml`` as a table, which nobody changes: one text is parsed once in a process."""
    return _parsed((folder / FILE).read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=8)
def _parsed(text: str) -> dict[str, Any]:
    import yaml

    return dict(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def versions(folder: Path) -> tuple[str, ...]:
    """The versions of the SDK that are simulated, the default first."""
    return tuple(table(folder)["sdks"])


def archs(folder: Path) -> tuple[str, ...]:
    """The architectures of the devices, the default first."""
    found = table(folder)
    return tuple(sorted(found["archs"], key=lambda name: name != found["default_arch"]))


def load(folder: Path, sdk: str) -> Abi:
    """The ABI of one version.

    Raises:
        ValueError: there is no such version, or a name has two forms in it.
        KeyError, TypeError: the file lacks an entry, or has one too many.
    """
    found = table(folder)
    if sdk not in found["sdks"]:
        raise ValueError(f"no SDK {sdk} of {found['vendor']} is simulated, only {', '.join(found['sdks'])}")
    reader = _Reader(found, sdk)
    errors = reader.group(found["errors"])
    number = sum(int(part) * found["sdk_number"][name] for part, name in zip(sdk.split("."), _PARTS, strict=True))
    return Abi(
        vendor=found["vendor"],
        title=found["title"],
        sdk=sdk,
        sdk_number=number,
        driver_needs_init=found["driver_needs_init"],
        unregistered_refused=reader.holds(found["unregistered_refused"]),
        no_device=found["no_device"],
        error_prefix=found["error_prefix"],
        priorities=found["priorities"],
        pci=found["pci"],
        device_nodes=tuple(found["device_nodes"]),
        archs={name: Arch(name, **one) for name, one in found["archs"].items()},
        default_arch=found["default_arch"],
        libraries=tuple(Library(**_tuples(one, "links")) for one in reader.there(found["libraries"])),
        files=found.get("files", {}),
        device_files=found.get("device_files", {}),
        headers=tuple(Header(**_tuples(one, "include", "numbers")) for one in reader.there(found["headers"])),
        types=found["types"],
        errors=errors,
        unknown_error=next(row.value for row in errors.rows if found["unknown_error"] in row.means),
        attributes=tuple(reader.attributes(found["attributes"]["rows"])),
        attribute_type=found["attributes"]["type"],
        numbers={name: reader.group(one) for name, one in found["numbers"].items()},
        structs=tuple(reader.layout(one) for one in reader.there(found["structs"])),
        functions={name: tuple(reader.functions(rows)) for name, rows in found["functions"].items()},
        absent={name: one["why"] for one in found.get("absent", ()) for name in one["names"]},
    )


_PARTS = ("major", "minor", "patch")


def _tuples(entry: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {**entry, **{key: tuple(entry[key]) for key in keys if key in entry}}


class _Reader:
    """Entries of a table, as one version has them."""

    def __init__(self, found: Mapping[str, Any], sdk: str) -> None:
        self._found = found
        self._sdk = sdk

    def holds(self, value: Any) -> bool:
        """A plain truth, or one of some versions."""
        return satisfies(self._sdk, value["sdk"]) if isinstance(value, Mapping) else bool(value)

    def there(self, entries: Any) -> list[dict[str, Any]]:
        """The entries that this version has, without their condition."""
        found = []
        for entry in entries:
            rest = {key: value for key, value in entry.items() if key != "sdk"}
            if "sdk" not in entry or satisfies(self._sdk, entry["sdk"]):
                found.append(rest)
        return found

    def rows(self, named: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Name -> its form in this version."""
        found = {}
        for name, entry in named.items():
            forms = self.there(entry if isinstance(entry, list) else [entry])
            if len(forms) > 1:
                raise ValueError(f"{name} has {len(forms)} forms in SDK {self._sdk}")
            if forms:
                found[name] = forms[0]
        return found

    def group(self, entry: Mapping[str, Any]) -> Group:
        rows = []
        for name, one in self.rows(entry["rows"]).items():
            means = (one["is"],) if "is" in one else ()
            rows.append(Row(name, one["value"], (*means, *one.get("also", ()))))
        return Group(entry.get("type", ""), tuple(rows))

    def attributes(self, named: Mapping[str, Any]) -> list[Attribute]:
        found = []
        for name, one in self.rows(named).items():
            source = f"host.{one['host']}" if "host" in one else str(one["fact"] if "fact" in one else one["fixed"])
            found.append(Attribute(name, one["value"], source))
        return found

    def layout(self, entry: Mapping[str, Any]) -> Layout:
        fields = []
        for name, (offset, kind, source, *other) in entry["fields"].items():
            older = other[0] if other and satisfies(self._sdk, other[0]["sdk"]) else None
            fields.append(Field(older["name"] if older else name, offset, kind, str(source)))
        typedef = entry.get("typedef", "")
        if isinstance(typedef, Mapping):
            typedef = typedef["name"] if satisfies(self._sdk, typedef["sdk"]) else ""
        return Layout(entry["name"], entry["role"], entry["bytes"], tuple(fields), typedef)

    def functions(self, named: Mapping[str, Any]) -> list[Function]:
        found = []
        for name, one in self.rows(named).items():
            returns, _, rest = one["c"].partition("(")
            found.append(
                Function(
                    name,
                    one["is"],
                    returns.strip(),
                    rest.strip().removesuffix(")"),
                    one.get("struct", ""),
                    one.get("before_init", False),
                )
            )
        return found
