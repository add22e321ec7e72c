"""Layer B of CUDA: the toolkit's runtime and the driver, called like any vendor's C runtime.

The bindings of cuda-python find the libraries and compile at run time; the calls themselves go through the class that
every vendor's calls go through, so that what a certificate says of it holds here as well.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import RuntimeFailure, RuntimeMissing, WrongDevice
from tutti_hal.shim.ffi import HostCalls
from tutti_hal.shim.sdk_runtime import SdkRuntime

if TYPE_CHECKING:
    from tutti_hal.profile import Profile
    from tutti_hal.record import Record


#: A section without bytes in the file.
_NO_BITS = 8


class CudaRuntime(SdkRuntime):
    """The CUDA runtime and driver of this process."""

    def __init__(self, record: Record, libraries: Iterable[Path | str]) -> None:
        """Open the libraries and see that a driver answers.

        Raises:
            RuntimeMissing: a library cannot be loaded, or there is no driver, or it is older than the toolkit.
            SymbolMissing: the libraries lack what every vendor must have.
            WrongDevice: the driver finds no device.
        """
        super().__init__(record, libraries)
        count = self.ffi.new("int *")
        try:
            self.call(HostCalls(), "GetDeviceCount", count)
        except WrongDevice:
            raise
        except RuntimeFailure as error:
            raise RuntimeMissing(
                "open the runtime of cuda",
                error.found,
                "Install a driver at least as new as the toolkit, and see that nvidia-smi lists a device.",
                vendor="cuda",
            ) from error

    def code(self, counts: HostCalls, name: str, *args: Any) -> int:
        """See :meth:`SdkRuntime.code`. A file that is cut off does not come to the driver, which may not survive it."""
        if name == "ModuleLoad" and _cut_off(Path(bytes(args[1]).decode())):
            counts.add(name)
            return int(self.record.errors.values["InvalidKernelImage"])
        return super().code(counts, name, *args)


def _cut_off(file: Path) -> bool:
    """Whether an ELF file ends before the segments and sections that its header tells of."""
    try:
        image = file.read_bytes()
    except OSError:
        return False  # for the driver to say
    if image[:5] != b"\x7fELF\x02":
        return False
    if len(image) < 64:
        return True
    program, sections = struct.unpack_from("<QQ", image, 32)
    program_size, programs, section_size, count = struct.unpack_from("<4H", image, 54)
    if max(program + program_size * programs, sections + section_size * count) > len(image):
        return True
    for at in range(sections, sections + section_size * count, section_size or 1):
        kind, offset, size = (*struct.unpack_from("<I", image, at + 4), *struct.unpack_from("<QQ", image, at + 24))
        if kind != _NO_BITS and offset + size > len(image):
            return True
    return False


def libraries(record: Record) -> tuple[Path | str, ...]:
    """The record's libraries: the toolkit's where cuda-python finds it, the others where the loader does."""
    found: list[Path | str] = []
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib  # type: ignore[import-not-found,import-untyped,unused-ignore]

        found.append(str(load_nvidia_dynamic_lib("cudart").abs_path))
    except (ImportError, OSError, RuntimeError):  # no bindings, or they find none: the loader is asked instead
        found += [name for name in record.host_api.libraries if "cudart" in name]
    return (*found, *(name for name in record.host_api.libraries if "cudart" not in name))


@dataclass(frozen=True)
class _Source:
    """A record as a key: records of one folder are the same."""

    folder: Path
    record: Record = field(compare=False)


@cache
def _open(source: _Source) -> CudaRuntime:
    return CudaRuntime(source.record, libraries(source.record))


def open_runtime(profile: Profile) -> CudaRuntime:
    """The runtime of a profile; one for each record, for the life of the process.

    Raises:
        RuntimeMissing: a library or the driver is missing, or the driver is older than the toolkit.
        WrongDevice: there is no device.
    """
    return _open(_Source(profile.record.folder, profile.record))
