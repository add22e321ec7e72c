"""Layer B of HOST: the package's own runtime, opened like any vendor's."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tutti_hal.paths import native_library
from tutti_hal.shim.ffi import CRuntime, HostCalls

if TYPE_CHECKING:
    from tutti_hal.profile import Profile
    from tutti_hal.record import Record


class HostRuntime(CRuntime):
    """The HOST runtime: the same number of virtual devices for each arch, in the order of the record."""

    def ordinals(self, arch: str) -> tuple[int, ...]:
        """The vendor's ordinals of the devices of an arch."""
        count = self.ffi.new("int *")
        self.call(HostCalls(), "GetDeviceCount", count)
        archs = list(self.record.archs)
        per_arch = count[0] // len(archs)
        first = archs.index(arch) * per_arch
        return tuple(range(first, first + per_arch))


@dataclass(frozen=True)
class _Source:
    """A record as a key: records of one folder are the same."""

    folder: Path
    record: Record = field(compare=False)


@cache
def _open(source: _Source) -> HostRuntime:
    record = source.record
    return HostRuntime(record, record.host_api.libraries or (native_library(),))


def open_runtime(profile: Profile) -> HostRuntime:
    """The runtime of a profile; one for each record, for the life of the process.

    Raises:
        RuntimeMissing: the native library cannot be loaded.
    """
    return _open(_Source(profile.record.folder, profile.record))
