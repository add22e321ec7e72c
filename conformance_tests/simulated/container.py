"""The container of a compiled module: what a simulated compiler writes and a simulated runtime loads."""

from __future__ import annotations

import struct

MAGIC = b"TTSIMMOD"
VERSION = 1

#: Magic, version, bytes of the header, vendor, arch, bytes of the payload.
_HEADER = struct.Struct("<8sII16s24sQ")
HEADER_BYTES = _HEADER.size


def wrap(vendor: str, arch: str, payload: bytes) -> bytes:
    """A HOST module (an ELF shared object) as a module of a vendor's arch.

    Raises:
        ValueError: a name is not ASCII or too long for its field.
    """
    names = []
    for text, room in ((vendor, 16), (arch, 24)):
        name = text.encode("ascii", "strict") if text.isascii() else b""
        if not 0 < len(name) < room:
            raise ValueError(f"'{text}' is not a name of 1 to {room - 1} ASCII characters")
        names.append(name)
    return _HEADER.pack(MAGIC, VERSION, HEADER_BYTES, *names, len(payload)) + payload


def unwrap(image: bytes) -> tuple[str, str, bytes]:
    """Vendor, arch and payload of a container.

    Raises:
        ValueError: it is not one, or not whole.
    """
    if len(image) < HEADER_BYTES:
        raise ValueError(f"{len(image)} bytes are no container")
    magic, version, header, vendor, arch, length = _HEADER.unpack_from(image)
    if magic != MAGIC or version != VERSION or header != HEADER_BYTES:
        raise ValueError(f"no container of version {VERSION}")
    if len(image) - HEADER_BYTES < length:
        raise ValueError(f"the payload has {len(image) - HEADER_BYTES} of {length} bytes")
    payload = image[HEADER_BYTES : HEADER_BYTES + length]
    return vendor.rstrip(b"\0").decode("ascii"), arch.rstrip(b"\0").decode("ascii"), payload
