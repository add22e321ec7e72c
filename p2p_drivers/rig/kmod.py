"""Kernel modules as files: what each needs, in the order in which to insert them. No depmod, no modprobe.

A package unpacked without installing has no modules.dep, so what a module depends on is read from the module itself
(section .modinfo of the ELF file).
"""

from __future__ import annotations

import lzma
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rig.errors import RigError

# What modules ask the crypto layer for by name while they start; modprobe knows it from softdep lines and aliases.
STARTS_WITH: Mapping[str, tuple[str, ...]] = {
    "libcrc32c": ("crc32c_generic",),
    "crc_t10dif": ("crct10dif_generic",),
    "ext4": ("crc32c_generic",),
    "jbd2": ("crc32c_generic",),
}


def image_of(file: Path) -> bytes:
    """The module's ELF image, unpacked when the package ships it as .ko.xz."""
    data = file.read_bytes()
    return lzma.decompress(data) if file.suffix == ".xz" else data


def modinfo(image: bytes) -> dict[str, list[str]]:
    """The key=value strings of a module's .modinfo section; ValueError when ``image`` is no 64-bit ELF file."""
    if image[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    (offset,) = struct.unpack_from("<Q", image, 0x28)
    size, count, names_at = struct.unpack_from("<HHH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", image, offset + index * size) for index in range(count)]
    names = sections[names_at][4]
    info: dict[str, list[str]] = {}
    for name, _, _, _, start, length in sections:
        if image[names + name : names + name + 9] != b".modinfo\0":
            continue
        for entry in image[start : start + length].split(b"\0"):
            key, equals, value = entry.decode(errors="replace").partition("=")
            if equals:
                info.setdefault(key, []).append(value)
    return info


def plain(name: str) -> str:
    """A module's name as the kernel has it: no folder, no suffix, underscores."""
    return name.rsplit("/", 1)[-1].removesuffix(".xz").removesuffix(".ko").replace("-", "_")


@dataclass(frozen=True)
class Modules:
    """The modules of one kernel release."""

    files: Mapping[str, Path]
    builtin: frozenset[str]

    @classmethod
    def of(cls, folder: Path) -> Modules:
        """Those below ``folder`` (a /lib/modules/RELEASE)."""
        files = {plain(path.name): path for path in folder.rglob("*.ko*")}
        listed = folder / "modules.builtin"
        builtin = frozenset(plain(name) for name in listed.read_text().split()) if listed.exists() else frozenset()
        return cls(files, builtin)

    def order(self, wanted: Iterable[str], optional: Iterable[str] = ()) -> list[tuple[str, bytes]]:
        """Name and image of each module to insert, dependencies first.

        A module built into the kernel needs nothing. RigError when one of ``wanted`` is neither a file nor built in;
        one of ``optional`` that the release lacks is passed over.
        """
        done: dict[str, bytes] = {}

        def take(name: str, must: bool) -> None:
            if name in done or name in self.builtin:
                return
            file = self.files.get(name)
            if file is None:
                if must:
                    raise RigError(f"module {name}", "this kernel has none of that name", "choose another kernel line")
                return
            image = image_of(file)
            for other in STARTS_WITH.get(name, ()):
                take(other, False)
            for entry in modinfo(image).get("depends", []):
                for other in filter(None, entry.split(",")):
                    take(plain(other), True)
            done.setdefault(name, image)

        for name in wanted:
            take(name, True)
        for name in optional:
            take(name, False)
        return list(done.items())
