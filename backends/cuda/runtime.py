"""Layer B of CUDA: the toolkit's runtime and the driver, called like any vendor's C runtime.

The bindings of cuda-python find the libraries and compile at run time; the calls themselves go through the class that
every vendor's calls go through, so that what a certificate says of it holds here as well.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import NotSupported, RuntimeFailure, RuntimeMissing, WrongDevice
from tutti_hal.shim.ffi import HostCalls
from tutti_hal.shim.sdk_runtime import SdkRuntime

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.profile import Profile
    from tutti_hal.record import Record


#: A section without bytes in the file.
_NO_BITS = 8

#: The runtime that has cudaMemcpyBatchAsync, and the one that took its index of the copy that failed away.
_BATCHED, _BATCHED_WITHOUT_INDEX = 12080, 13000
#: cudaMemcpySrcAccessOrderStream: sources are read in the order of the stream.
_IN_STREAM_ORDER = 1
_BATCHED_DECLARED = """
typedef struct {{ int order; int source_hint[2]; int destination_hint[2]; unsigned int flags; }} BatchedAttributes;
int cudaMemcpyBatchAsync(void **, void **, size_t *, size_t, BatchedAttributes *, size_t *, size_t, {index}Stream);
"""


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
        except WrongDevice as error:
            raise WrongDevice(
                "open the runtime of cuda",
                error.found,
                "See that nvidia-smi lists a device, that CUDA_VISIBLE_DEVICES names one, and that a GPU in MIG mode "
                "has an instance.",
                vendor="cuda",
                call=error.call,
                code=error.code,
                canonical=error.canonical,
            ) from error
        except RuntimeFailure as error:
            raise RuntimeMissing(
                "open the runtime of cuda",
                error.found,
                "Install a driver at least as new as the toolkit, and see that nvidia-smi lists a device.",
                vendor="cuda",
                call=error.call,
                code=error.code,
                canonical=error.canonical,
            ) from error

    def code(self, counts: HostCalls, name: str, *args: Any) -> int:
        """See :meth:`SdkRuntime.code`. A file that is cut off does not come to the driver, which may not survive it."""
        if name == "ModuleLoad" and _cut_off(Path(bytes(args[1]).decode())):
            counts.add(name)
            return int(self.record.errors.values["InvalidKernelImage"])
        return super().code(counts, name, *args)

    def batched_copy(
        self,
        counts: HostCalls,
        stream: Any,
        destinations: NDArray[np.uint64],
        sources: NDArray[np.uint64],
        sizes: NDArray[np.uint64],
    ) -> Callable[[], None]:
        """See :meth:`SdkRuntime.batched_copy`: cudaMemcpyBatchAsync, of CUDA 12.8 and later."""
        ffi, (version, function) = self.ffi, self._batched
        if function is None:
            raise NotSupported(
                "enqueue many copies at once",
                f"the runtime is {version // 1000}.{version % 1000 // 10}, cudaMemcpyBatchAsync came with 12.8",
                "Install a newer toolkit, or copy one after the other.",
                vendor=self.vendor,
            )
        attributes = ffi.new("BatchedAttributes *", {"order": _IN_STREAM_ORDER})
        first, failed = ffi.new("size_t *"), ffi.new("size_t *")
        to, source, nbytes = (
            ffi.cast(kind, ffi.from_buffer(array))
            for kind, array in (("void **", destinations), ("void **", sources), ("size_t *", sizes))
        )
        behind = (stream,) if version >= _BATCHED_WITHOUT_INDEX else (failed, stream)
        kept = destinations, sources, sizes  # the pointers above point into them

        def move() -> None:
            counts.add("MemcpyBatchAsync")
            code = int(function(to, source, nbytes, len(kept[2]), attributes, first, 1, *behind))
            if code:
                raise self.failure("MemcpyBatchAsync", code, counts=counts)

        return move

    @cached_property
    def _batched(self) -> tuple[int, Callable[..., Any] | None]:
        """The runtime's version, and its cudaMemcpyBatchAsync."""
        found = self.ffi.new("int *")
        self.call(HostCalls(), "RuntimeGetVersion", found)
        version = int(found[0])
        if version < _BATCHED:
            return version, None
        index = "" if version >= _BATCHED_WITHOUT_INDEX else "size_t *, "
        self.ffi.cdef(_BATCHED_DECLARED.format(index=index))
        return version, self._find("cudaMemcpyBatchAsync")


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
    except Exception:  # no bindings, or they find none, which each version says by another class: ask the loader
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
