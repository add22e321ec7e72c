"""The binding of the kernel module's requests against its header, as a C compiler lays it out."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tutti_hal.nvme import p2p_uapi

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "p2p_drivers" / "uapi" / "tutti_p2p.h"
COMPILER = shutil.which("cc") or shutil.which("gcc")

#: The prefix of a group of numbers in the header, and the enumeration that has them.
GROUPS = {
    "TUTTI_P2P_FEATURE_": p2p_uapi.Feature,
    "TUTTI_P2P_REFUSED_": p2p_uapi.Refused,
    "TUTTI_P2P_EVENT_": p2p_uapi.EventKind,
    "TUTTI_P2P_CAUSE_": p2p_uapi.Cause,
    "TUTTI_P2P_UNPIN_": p2p_uapi.UnpinFlag,
    "TUTTI_P2P_PROVIDER_F_": p2p_uapi.ProviderFlag,
    "TUTTI_P2P_PROVIDER_": p2p_uapi.Provider,
}


#: Providers of one vendor: the core names none, user space finds them by name.
VENDORS = {f"TUTTI_P2P_PROVIDER_{name}": number for name, number in (("NVIDIA", 4), ("METAX", 5), ("MUSA", 6))}


def defined() -> list[str]:
    """Every number that the header defines, in its order."""
    names = re.findall(r"^#define (TUTTI_P2P_\w+)\s+\S", HEADER.read_text(encoding="utf-8"), flags=re.M)
    return [name for name in names if name not in ("TUTTI_P2P_IOC", "TUTTI_P2P_SIZE")]


def requests() -> dict[str, type[p2p_uapi.Request]]:
    """Requests by the name of their ioctl."""
    found = {}
    for name, structure in p2p_uapi.STRUCTURES.items():
        if issubclass(structure, p2p_uapi.Request):
            found[f"TUTTI_P2P_{name.upper()}"] = structure
    return found


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Sizes, offsets and numbers as a program prints them."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    lines = []
    for name, structure in p2p_uapi.STRUCTURES.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct tutti_p2p_{name}));')
        for member in structure.offsets():
            lines.append(f'printf("{name}.{member} %zu\\n", offsetof(struct tutti_p2p_{name}, {member}));')
            lines.append(f'printf("{name}:{member} %zu\\n", sizeof(((struct tutti_p2p_{name} *)0)->{member}));')
    lines += [f'printf("{name} %llu\\n", (unsigned long long){name});' for name in defined()]
    folder = tmp_path_factory.mktemp("uapi")
    source = folder / "probe.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdio.h>\n"
        f'#include "{HEADER}"\nint main(void)\n{{\n' + "\n".join(lines) + "\nreturn 0;\n}\n"
    )
    subprocess.run([COMPILER, "-Wall", "-Werror", source, "-o", folder / "probe"], check=True, timeout=60)
    printed = subprocess.run([folder / "probe"], check=True, capture_output=True, text=True, timeout=10).stdout
    return {name: int(value) for name, value in (line.split() for line in printed.splitlines())}


@pytest.mark.parametrize("name", p2p_uapi.STRUCTURES)
def test_each_structure_lies_as_in_the_header(name: str, compiled: dict[str, int]) -> None:
    structure = p2p_uapi.STRUCTURES[name]
    assert structure.size() == compiled[name]
    for member, offset in structure.offsets().items():
        assert offset == compiled[f"{name}.{member}"], member
    ends = [*list(structure.offsets().values())[1:], structure.size()]
    for (member, offset), end in zip(structure.offsets().items(), ends, strict=True):
        assert end - offset == compiled[f"{name}:{member}"], member


def test_the_header_has_no_structure_more() -> None:
    found = re.findall(r"^struct tutti_p2p_(\w+) \{", HEADER.read_text(encoding="utf-8"), flags=re.M)
    assert sorted(found) == sorted(p2p_uapi.STRUCTURES)


def test_every_number_is_the_header_s(compiled: dict[str, int]) -> None:
    seen = 0
    for name in defined():
        wanted: int | None = None
        if name in requests():
            wanted = requests()[name].command()
        elif name in VENDORS:
            wanted = VENDORS[name]
        elif name == "TUTTI_P2P_VERSION":
            wanted = p2p_uapi.VERSION
        elif name == "TUTTI_P2P_MMAP_WATCH":
            wanted = p2p_uapi.MMAP_WATCH
        else:
            prefix = next(prefix for prefix in GROUPS if name.startswith(prefix))
            wanted = int(GROUPS[prefix][name.removeprefix(prefix)])
        assert compiled[name] == wanted, name
        seen += 1
    assert seen > 40


@pytest.mark.parametrize("structure", p2p_uapi.STRUCTURES.values(), ids=lambda each: each.__name__)
def test_what_is_encoded_is_decoded(structure: type[p2p_uapi.Structure]) -> None:
    values: dict[str, object] = {}
    for number, member in enumerate(dataclasses.fields(structure), start=1):
        default = getattr(structure(), member.name)
        if isinstance(default, tuple):
            values[member.name] = tuple(number + index for index in range(len(default)))
        else:
            values[member.name] = b"nvme0" if isinstance(default, bytes) else number
    whole = structure(**values)
    assert structure.decode(whole.encode()) == whole
    assert len(whole.encode()) == structure.size()


def test_a_request_of_a_file_that_does_not_know_it_is_an_errno() -> None:
    import errno
    import os

    fd = os.open(os.devnull, os.O_RDWR)
    try:
        error, answer = p2p_uapi.request(fd, p2p_uapi.Negotiate(version_min=1, version_max=1))
    finally:
        os.close(fd)
    assert error == errno.ENOTTY
    assert answer.version_max == 1
