"""A vendor's record: one YAML file that says everything about a vendor that can be said as data."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import GenerationError
from tutti_hal.record_sdk import Rtc, Sdk, SdkVersion, Toolchain
from tutti_hal.spec import Primitive, Spec, load_spec
from tutti_hal.spec.nodes import Problems, read
from tutti_hal.versions import satisfies

__all__ = [
    "WAVE_WIDTHS",
    "Arch",
    "Detection",
    "Device",
    "Evidence",
    "HostApi",
    "Lowering",
    "Missing",
    "Numbers",
    "P2p",
    "Quirk",
    "Record",
    "Rtc",
    "Sdk",
    "SdkVersion",
    "Toolchain",
    "load_record",
    "missing_functions",
]

if TYPE_CHECKING:
    from jinja2 import Template


#: The widths of a wave that kernels are written for.
WAVE_WIDTHS = (32, 64, 128)


@dataclass(frozen=True)
class Evidence:
    """Where a fact comes from (``source``) and how far to trust it (``grade``, one of the record's evidence words)."""

    source: str
    grade: str


@dataclass(frozen=True)
class Detection:
    """How a header knows that this vendor's compiler reads it.

    Attributes:
        rank: records are tried in ascending rank, since one vendor's compiler may define another's macros.
        macros: any of these defined means this vendor.
        device_pass: any of these defined means the device pass.
        excludes: any of these defined means that another vendor's compiler or headers are at work, too.
    """

    rank: int
    macros: tuple[str, ...]
    device_pass: tuple[str, ...]
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arch:
    """One architecture: its wave, its limits, what it can do.

    Attributes:
        name: as in ``vendor:arch``.
        wave_width: lanes of a wave; a constant of compiled code.
        mask_bits: width of the vendor's lane mask.
        defines: preprocessor names that its compilation sets, with their values.
        limits: maxima, such as ``block_threads`` or ``shared_bytes``.
        capabilities: capability -> whether it has it; every known capability is present.
        vars: words for flag templates.
        overrides: family -> lowering that replaces the record's on this arch.
        identity: device attribute -> value; what tells a device of this arch from the vendor's others. Empty: all are.
    """

    name: str
    wave_width: int
    mask_bits: int
    defines: Mapping[str, str]
    limits: Mapping[str, int]
    capabilities: Mapping[str, bool]
    vars: Mapping[str, str]
    overrides: Mapping[str, Lowering]
    evidence: Evidence
    identity: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Lowering:
    """How one family of primitives is written for this vendor.

    ``body`` is a Jinja text with StrictUndefined. For a function it is the statements of its body, in which every
    parameter is in scope by name and a pointer to a shared word is a plain pointer; for a macro it is the expansion.
    It sees the axes of the member (``order``, ``scope``, ``bits``, ``dim``, ``op``), ``id``, ``c_name``, ``stem`` (the
    name without its ``tt_``), ``args`` (parameter names, comma separated), ``returns``, ``wave_width``, ``mask_bits``,
    and each name of ``vars``: a table from one axis's value to a word, or a plain word.

    Attributes:
        body: the text of every member without an exception (may be empty); None when all members have one.
        vars: name -> word, or name -> (axis, value -> word).
        exceptions: primitive id -> body of that member.
    """

    body: str | None
    vars: Mapping[str, str | tuple[str, Mapping[str, str]]]
    exceptions: Mapping[str, str]
    evidence: Evidence | None

    def words(self, primitive: Primitive) -> dict[str, str]:
        """The value of each of ``vars`` for one member."""
        result = {}
        for name, value in self.vars.items():
            result[name] = value if isinstance(value, str) else value[1][primitive.axes[value[0]]]
        return result


@dataclass(frozen=True)
class HostApi:
    """How canonical host functions are called by this vendor.

    Attributes:
        libraries: shared libraries that hold the symbols, in order; an empty tuple means the package's own.
        prefix: the naming rule: a canonical name follows it unchanged.
        names: exceptions, canonical -> symbols, of which the first that the libraries have is taken.
        absent: canonical -> why the vendor has nothing that keeps its meaning.
        append: canonical -> C type and value of each parameter that the vendor has behind the contract's.
        init: a function of the vendor's (``int f(unsigned int)``) that is called once with 0 before any other.
        wake: whether a device must be used once in a thread (``Free(NULL)``) before the other calls know of it.
        headers: headers that declare functions and numbers, below the SDK's include folders.
        defines: macros that a host compiler needs to read them, as ``NAME=VALUE``.
    """

    libraries: tuple[str, ...]
    prefix: str
    names: Mapping[str, tuple[str, ...]]
    absent: Mapping[str, str]
    evidence: Evidence
    append: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    init: str = ""
    wake: bool = False
    headers: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()

    def symbols(self, canonical: str) -> tuple[str, ...]:
        """The symbols that may be the function, best first; none where it is absent.

        Does not ask whether ``canonical`` is a known name.
        """
        if canonical in self.absent:
            return ()
        return self.names.get(canonical, (self.prefix + canonical,))

    def symbol(self, canonical: str) -> str | None:
        """The vendor's symbol, the best where there are several, or None where it is absent."""
        return next(iter(self.symbols(canonical)), None)


@dataclass(frozen=True)
class Numbers:
    """A table of the vendor's numbers under canonical names.

    Attributes:
        by_name: the numbers are not known, or differ between versions: bind the spelling when compiling on the target.
        prefix: the naming rule: the vendor spells a canonical name as ``prefix`` + name.
        names: exceptions of the rule, canonical -> spelling.
        values: canonical name -> number; with ``by_name`` only those that are known all the same.
    """

    by_name: bool
    prefix: str
    names: Mapping[str, str]
    values: Mapping[str, int]
    evidence: Evidence | None

    def spelling(self, canonical: str) -> str:
        """The vendor's name of a canonical one."""
        return self.names.get(canonical, self.prefix + canonical)

    def name_of(self, number: int) -> str | None:
        """The canonical name of a number, or None."""
        return next((name for name, value in self.values.items() if value == number), None)


@dataclass(frozen=True)
class Quirk:
    """A known defect or peculiarity and the SDK versions it applies to (``*`` or comma-joined comparisons).

    Attributes:
        changes: what of the record is different there (see :func:`tutti_hal.overlay.at_sdk`).
        refuse: why nothing can run there; empty where it is lived with.
    """

    id: str
    text: str
    sdk: str
    evidence: Evidence
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    refuse: str = ""

    def applies(self, version: str | None) -> bool:
        """Whether it applies to an SDK version such as ``4.3.3``; to an unknown one (None), whatever it says."""
        return version is None or self.sdk == "*" or satisfies(version, self.sdk)


@dataclass(frozen=True)
class P2p:
    """How a drive reaches this vendor's memory: mechanisms in order of preference, pin granule, remark."""

    mechanisms: tuple[str, ...]
    granule_bytes: int
    note: str
    evidence: Evidence


@dataclass(frozen=True)
class Device:
    """What rendered device code starts with, and how its kernel entries look.

    Attributes:
        includes: header names with their quotes or brackets, in order.
        prelude: text after the includes.
        entry: ``global`` (the vendor's launcher finds a decorated function) or ``table`` (an entry that unpacks an
            argument array, and a row of a module table).
    """

    includes: tuple[str, ...]
    prelude: str
    entry: str


@dataclass(frozen=True)
class Record:
    """A vendor's record, validated. Every mapping is read-only.

    Attributes:
        kind: ``hardware``, ``host`` or ``simulated``; only hardware is ever selected without being named.
        default_arch: the arch of a profile that names none; None: it must be read from the device.
        primitives: family -> lowering.
        placement: default memory of ``submission_queue``, ``completion_queue``, ``data``, ``doorbell``, ``control``.
        constants: enum group -> numbers.
        applied: quirks whose changes are in force in this record.
    """

    vendor: str
    title: str
    kind: str
    folder: Path
    detection: Detection
    sdk: Sdk
    toolchain: Toolchain
    default_arch: str | None
    archs: Mapping[str, Arch]
    device: Device
    host_api: HostApi
    errors: Numbers
    attributes: Numbers
    constants: Mapping[str, Numbers]
    primitives: Mapping[str, Lowering]
    capabilities: Mapping[str, bool]
    placement: Mapping[str, str]
    p2p: P2p
    quirks: tuple[Quirk, ...]
    file: Path = field(default=Path())
    applied: tuple[str, ...] = ()

    def quirks_for(self, sdk: str | None) -> tuple[Quirk, ...]:
        """The quirks that apply to one SDK version; all of them where the version is not known."""
        return tuple(quirk for quirk in self.quirks if quirk.applies(sdk))

    @property
    def device_prelude(self) -> str:
        """The includes and the prelude as text."""
        lines = [f"#include {name}" for name in self.device.includes]
        return "\n".join([*lines, self.device.prelude.rstrip()]).strip() + "\n"

    def missing(self, arch: Arch, spec: Spec | None = None) -> Missing:
        """What this record should lower or map on ``arch``, and does not: all of it in one go."""
        contract = spec or load_spec()
        primitives = tuple(
            p.id for p in contract.primitives.values() if self._wanted(p, arch) and self.lowering_of(p, arch) is None
        )
        return Missing(primitives, missing_functions(self, contract))

    @staticmethod
    def _wanted(primitive: Primitive, arch: Arch) -> bool:
        return primitive.capability is None or arch.capabilities[primitive.capability]

    def lowering_of(self, primitive: Primitive, arch: Arch) -> Lowering | None:
        """The lowering that covers one primitive on one arch, or None where none has a body for it."""
        lowering = arch.overrides.get(primitive.family) or self.primitives.get(primitive.family)
        if lowering is None or (lowering.body is None and primitive.id not in lowering.exceptions):
            return None
        return lowering

    def lower(self, primitive: Primitive, arch: Arch) -> str | None:
        """The text of one primitive on one arch: a function's statements, or a macro's expansion.

        Returns:
            None where the arch lacks the primitive's capability.

        Raises:
            GenerationError: the record has no lowering for it, or its text does not render.
        """
        if not self._wanted(primitive, arch):
            return None
        lowering = self.lowering_of(primitive, arch)
        if lowering is None:
            raise GenerationError(
                f"lower {primitive.id} for {self.vendor}:{arch.name}",
                f"{self.file} has no lowering for family '{primitive.family}'",
                f"Add primitives.{primitive.family} to the record, or declare its capability false.",
            )
        body = lowering.exceptions.get(primitive.id, lowering.body) or ""
        words = {
            **primitive.axes,
            "id": primitive.id,
            "c_name": primitive.c_name,
            "stem": primitive.c_name.removeprefix("tt_"),
            "args": ", ".join(p.name for p in primitive.params),
            "returns": primitive.returns,
            "wave_width": arch.wave_width,
            "mask_bits": arch.mask_bits,
            **lowering.words(primitive),
        }
        from jinja2 import TemplateError

        try:
            return _template(body).render(words).strip("\n")
        except TemplateError as error:
            raise GenerationError(
                f"lower {primitive.id} for {self.vendor}:{arch.name}",
                f"the body of primitives.{primitive.family} in {self.file} does not render: {error}",
                "Use only the axes, vars and names that a lowering sees (see tutti_hal.record.Lowering).",
            ) from error


@dataclass(frozen=True)
class Missing:
    """What a record lacks on one arch: primitive ids and canonical host functions."""

    primitives: tuple[str, ...]
    host_functions: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.primitives or self.host_functions)


def missing_functions(record: Record, spec: Spec) -> tuple[str, ...]:
    """Host functions that the record's capabilities make mandatory and that it declares absent."""
    return tuple(
        f.name
        for f in spec.host_functions.values()
        if record.host_api.symbol(f.name) is None and (f.capability is None or record.capabilities[f.capability])
    )


@functools.lru_cache(maxsize=512)
def _template(body: str) -> Template:
    """A compiled lowering; many families share one text."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(body)


def load_record(vendor_dir: Path, spec: Spec | None = None) -> Record:
    """Read ``vendor_dir``/vendor.yaml, check it against the contract, and freeze it.

    Args:
        vendor_dir: a folder of ``backends/``.
        spec: the contract to check against; the installed one when None.

    Raises:
        SpecError: one or more entries are wrong; it lists all of them with file, line, key and near miss.
    """
    from tutti_hal.spec.record_schema import build_record, check_whole, record_schema
    from tutti_hal.spec.schema import BAD

    contract = spec or load_spec()
    file = vendor_dir / "vendor.yaml"
    problems = Problems()
    node = read(file)
    table = record_schema(contract).check(node, problems)
    if table is not BAD:
        check_whole(table, vendor_dir, contract, node, problems)
    problems.raise_if_any(f"load the record {file}")
    return build_record(table, vendor_dir, contract)
