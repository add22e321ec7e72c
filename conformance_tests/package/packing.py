"""The long files of a package are packed; a plain one in the place of its packed form is as good."""

from __future__ import annotations

import lzma
from collections.abc import Collection, Mapping

from tutti_hal.conformance_tests.package.findings import Findings
from tutti_hal.conformance_tests.package.layout import FILE_LIMIT_BYTES, PACKED, TOTAL_LIMIT_BYTES

#: Ending of a packed file; `xz -dc` reads it.
ENDING = ".xz"

#: Memory that unpacking may take: what the largest preset of xz asks for, and a little.
_MEMORY_LIMIT_BYTES = 80 << 20

#: What xz packs with; its dictionary of 8 MiB is what unpacking costs.
_PRESET = 6


def packed(files: Mapping[str, bytes], names: Collection[str]) -> dict[str, bytes]:
    """The files as they are written: those of ``names`` packed, under their own names with :data:`ENDING`."""
    return {
        f"{name}{ENDING}" if name in names else name: lzma.compress(data, preset=_PRESET) if name in names else data
        for name, data in files.items()
    }


def unpacked(files: Mapping[str, bytes], findings: Findings) -> dict[str, bytes]:
    """The files as they are read: by their own names, whether they were packed or not.

    Safe for what a stranger wrote: nothing is unpacked beyond the limits of a package.
    """
    found = {name: data for name, data in files.items() if name.removesuffix(ENDING) not in PACKED or name in PACKED}
    total = sum(map(len, found.values()))
    for name in PACKED:
        data = files.get(f"{name}{ENDING}")
        if data is None:
            continue
        if name in files:
            findings.refuse(f"{name}{ENDING}", 0, f"beside {name}", "one of the two")
            continue
        limit = min(FILE_LIMIT_BYTES, TOTAL_LIMIT_BYTES - total)
        plain = _unpack(f"{name}{ENDING}", data, limit, findings)
        if plain is not None:
            found[name] = plain
            total += len(plain)
    return found


def _unpack(name: str, data: bytes, limit: int, findings: Findings) -> bytes | None:
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, _MEMORY_LIMIT_BYTES)
    try:
        plain = stream.decompress(data, limit + 1)
    except (lzma.LZMAError, EOFError) as error:
        findings.refuse(name, 0, f"not a stream of xz: {error}", "a file as certify writes it")
        return None
    if len(plain) > limit:
        findings.refuse(name, 0, f"more than {limit} bytes when it is unpacked", "a package as certify writes it")
    elif not stream.eof or stream.unused_data:
        what = "something after the end of its stream" if stream.eof else "a stream that is cut off"
        findings.refuse(name, 0, what, "a file as certify writes it")
    else:
        return plain
    return None
