"""``python -m tutti_hal.storage.c_api DIR``: writes the header, the library and how to link it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tutti_hal.errors import TuttiError
from tutti_hal.storage.c_api.building import build


def main() -> int:
    """Builds, and prints how to compile a program with it. Returns 0, or 1 after a typed error."""
    parser = argparse.ArgumentParser(
        prog="python -m tutti_hal.storage.c_api",
        description="Writes tutti_storage.h, libtutti_storage.so for this Python, and tutti_storage.pc.",
        epilog="Needs a C compiler (CC, else cc, gcc or clang), Python.h and a shared libpython.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="where to write; made if it is not there")
    try:
        built = build(parser.parse_args().folder)
    except TuttiError as error:
        print(error, file=sys.stderr)
        return 1
    print(built.flags)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
