"""Compiles the vector programs against the headers of this machine and writes their JSON.

    python tests/nvme/vectors/regenerate.py [--kernel-header PATH]

libnvme.json needs libnvme's headers and library (Debian: libnvme-dev), uapi.json the kernel's user headers
(linux-libc-dev), kernel.json the header of the kernel's own driver (linux-headers-*-common). What is missing is said
and left as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


class Missing(Exception):
    """A header, a library or a compiler is not there."""


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Missing(f"{command[0]} is not installed") from error
    if done.returncode:
        raise Missing(f"{' '.join(command[:2])}: {done.stderr.strip()[:200]}")
    return done.stdout


def _compile_and_print(source: str, *flags: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "vectors")
        _run("cc", "-w", "-I", str(HERE), "-o", program, str(HERE / source), *flags)
        printed: dict[str, Any] = json.loads(_run(program))
    return printed


def libnvme() -> dict[str, Any]:
    """What libnvme says.

    Raises:
        Missing: no compiler, or no libnvme-dev.
    """
    version = _run("pkg-config", "--modversion", "libnvme").strip()
    return {"source": {"libnvme": version}, **_compile_and_print("libnvme_vectors.c", "-lnvme")}


def uapi() -> dict[str, Any]:
    """What linux/nvme_ioctl.h says.

    Raises:
        Missing: no compiler, or no kernel user headers.
    """
    text = _run("cc", "-E", "-dM", "-include", "linux/version.h", "-x", "c", "/dev/null")
    code = int(re.search(r"#define LINUX_VERSION_CODE (\d+)", text)[1])  # type: ignore[index]
    return {
        "source": {"linux": f"{code >> 16}.{code >> 8 & 255}.{code & 255}"},
        **_compile_and_print("uapi_vectors.c"),
    }


def kernel_headers() -> list[Path]:
    """The headers of the kernel's own driver that are installed here, newest last."""
    return sorted(Path("/usr/src").glob("linux-headers-*-common/include/linux/nvme.h"))


def kernel(header: Path | None = None) -> dict[str, Any]:
    """What the kernel's include/linux/nvme.h says.

    Raises:
        Missing: no compiler, or no such header.
    """
    if header is None:
        if not kernel_headers():
            raise Missing("no linux-headers-*-common under /usr/src")
        header = kernel_headers()[-1]
    named = re.search(r"linux-headers-([^/]+?)-common", str(header))
    return {
        "source": {"linux": named[1] if named else str(header.name)},
        **_compile_and_print("kernel_vectors.c", "-I", str(HERE / "shim"), f'-DNVME_H="{header}"'),
    }


def main() -> int:
    """Writes what can be made; 1 when something was missing."""
    parser = argparse.ArgumentParser(description="Write the NVMe vectors.")
    parser.add_argument("--kernel-header", type=Path, default=None)
    arguments = parser.parse_args()
    makers = {"libnvme": libnvme, "uapi": uapi, "kernel": lambda: kernel(arguments.kernel_header)}
    missing = 0
    for name, make in makers.items():
        try:
            data = make()
        except Missing as error:
            print(f"{name}.json: left as it is: {error}", file=sys.stderr)
            missing = 1
            continue
        (HERE / f"{name}.json").write_text(dump(data), encoding="utf-8")
        print(f"{name}.json: {data['source']}")
    return missing


def dump(data: dict[str, Any]) -> str:
    """JSON with one group a line, short enough to read a difference."""
    parts = []
    for key, value in data.items():
        if key == "commands":
            lines = ",\n".join(f"    {json.dumps(v)}" for v in value)
            parts.append(f'  "{key}": [\n{lines}\n  ]')
        elif key == "source":
            parts.append(f'  "{key}": {json.dumps(value)}')
        else:
            lines = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            parts.append(f'  "{key}": {{\n{lines}\n  }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
