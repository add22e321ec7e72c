"""An SDK root, put together in the kernel cache: what the vendor's folder holds, and what its ABI makes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tutti_hal.conformance_tests.simulated import abi as abis
from tutti_hal.conformance_tests.simulated.abi import Abi, Library
from tutti_hal.conformance_tests.simulated.generate import header, library, replaced, tables, words
from tutti_hal.errors import BuildError, CompilerMissing
from tutti_hal.paths import include_dir, native_library, package_file
from tutti_hal.toolchain import cache

#: Devices of a root; HOST has as many of each arch.
DEVICES = 2

#: Compilers of the libraries, in order of preference: those that kernels of HOST are compiled with.
_COMPILERS = ("g++", "c++", "clang++")

# To translate a number is nothing beside the call that it is for: what counts is how soon the root is there.
_FLAGS = (
    *("-std=c++20", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-fno-gnu-unique"),
    *("-Wall", "-Wextra", "-Werror"),
)

_LIMIT_S = 300


def make_root(folder: Path, arch: str, sdk: str) -> Path:
    """The SDK root of a simulated vendor; made once for each content, arch and version, and then found in the cache.

    Blocks for seconds when it has to be made. Two processes that want the same one make it once.

    Args:
        folder: the vendor's: ``abi.yaml``, and ``root/`` where there is more.
        arch: of the devices.
        sdk: version of the SDK.

    Returns:
        The root: ``lib``, ``bin``, ``include``, ``dev``, ``sdk.json``, the vendor's version file. Not to be changed.

    Raises:
        CompilerMissing: there is no C++ compiler.
        BuildError: it refused a library.
        CacheUnwritable: the kernel cache cannot be written.
        ValueError: the arch or the version is not simulated.
    """
    abi = abis.load(folder, sdk)
    if arch not in abi.archs:
        raise ValueError(f"no {arch} of {abi.vendor} is simulated, only {', '.join(abi.archs)}")
    libraries = _libraries(folder, abi)
    here = Path(__file__).parent
    # The stand-ins of the compilers read what lies beside them: a compiler that changed is another compiler.
    inputs = [
        folder / abis.FILE,
        *_own_files(folder / "root"),
        *(file for name in _STANDINS for file in _own_files(here / name)),
    ]
    key = _key("root", inputs, libraries.name, arch, sys.executable)
    with cache.building(key) as fresh:
        if fresh is not None:
            _fill(fresh, cache.entry(key), folder, abi, arch, libraries)
    return cache.entry(key)


def _libraries(folder: Path, abi: Abi) -> Path:
    """A folder with the compiled libraries and the headers of one version: the same for every arch."""
    native = package_file("conformance_tests", "simulated", "native")
    compiler = _compiler()
    host = native_library()
    about = host.stat()
    inputs = [folder / abis.FILE, *_own_files(native), *(Path(__file__).with_name(name) for name in _SELF)]
    inputs += sorted((include_dir() / "tutti").glob("*.h"))
    key = _key("libraries", inputs, abi.sdk, f"{compiler.resolve()}", f"{host}:{about.st_size}:{about.st_mtime_ns}")
    with cache.building(key) as fresh:
        if fresh is not None:
            (fresh / "lib").mkdir()
            _headers(fresh / "include", abi)
            (fresh / "tables.inc").write_text(tables(abi), encoding="utf-8")
            with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
                made = [pool.submit(_compile, compiler, one, abi, fresh, native, host) for one in abi.libraries]
                for one_made in made:
                    one_made.result()
    return cache.entry(key)


#: The folders of this package that the compiler stand-ins are made of.
_STANDINS = ("standin", "device")

#: The files of this package that decide what a library is.
_SELF = ("abi.py", "generate.py", "root.py")


def _headers(include: Path, abi: Abi) -> None:
    for one in abi.headers:
        path = include / one.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header(abi, one, words(abi, "", "")), encoding="utf-8")


def _compile(compiler: Path, one: Library, abi: Abi, fresh: Path, native: Path, host: Path) -> None:
    """One library, with the name that the loader knows it by, over the HOST runtime."""
    out = fresh / "lib" / one.file
    if one.source:
        unit = native / one.source
    else:
        unit = fresh / f"{one.file}.cpp"
        unit.write_text(library(abi, one), encoding="utf-8")
    command = [
        *(str(compiler), *_FLAGS, f"-DSIM_VENDOR_{abi.vendor.upper()}"),
        *(f"-I{path}" for path in (fresh, native, include_dir(), fresh / "include")),
        *(str(unit), "-o", str(out), f"-Wl,-soname,{one.file}", str(host), f"-Wl,-rpath,{host.parent}", "-ldl"),
    ]
    tried = f"compile the simulated library {one.file} of {abi.vendor} {abi.sdk}"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(tried, str(error), "Check that the compiler can be run.") from error
    if done.returncode:
        raise BuildError(tried, done.stderr.strip()[-4000:], f"The command was: {' '.join(command)}")


def _fill(fresh: Path, root: Path, folder: Path, abi: Abi, arch: str, libraries: Path) -> None:
    known = words(abi, sys.executable, str(root))
    # Copies, not links: to the loader two roots hold two libraries, each with its own devices.
    shutil.copytree(libraries / "lib", fresh / "lib")
    shutil.copytree(libraries / "include", fresh / "include")
    for one in abi.libraries:
        for link in one.links:
            (fresh / "lib" / link).symlink_to(one.file)
    for source in _own_files(folder / "root"):
        _place(source, fresh / source.relative_to(folder / "root"), known)
    about_arch = abi.archs[arch]
    seen = {
        "DESCRIBED": str(about_arch.described),
        "PCI_VENDOR": f"{abi.pci['vendor']:04x}",
        "PCI_DEVICE": f"{about_arch.pci_device:04x}",
        "PCI_ID": f"{abi.pci['vendor']:04X}:{about_arch.pci_device:04X}",  # as the kernel writes it in an uevent
    }
    for name, text in {**abi.files, **abi.device_files}.items():
        path = fresh / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(replaced(text, {**known, **seen}), encoding="utf-8")
    for node in abi.device_nodes:
        path = fresh / node
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (fresh / "simulated.conf").write_text(f"arch {arch}\ndevices {DEVICES}\n", encoding="utf-8")
    about = {
        **{"vendor": abi.vendor, "sdk": abi.sdk, "arch": arch, "wave_width": abi.archs[arch].wave},
        **{"archs": {name: one.wave for name, one in abi.archs.items()}, "devices": DEVICES, "simulated": True},
        **{"python": sys.executable, "native": str(native_library()), "host_include": str(include_dir())},
    }
    (fresh / "sdk.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _place(source: Path, target: Path, known: dict[str, str]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.suffix == ".in":
        target = target.with_suffix("")
        target.write_text(replaced(source.read_text(encoding="utf-8"), known), encoding="utf-8")
    else:
        shutil.copyfile(source, target)
    # A wheel does not keep the mode of a file.
    if target.parent.name == "bin":
        target.chmod(0o755)


def _own_files(folder: Path) -> Iterator[Path]:
    """The files below a folder, in order; none where it is missing."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _compiler() -> Path:
    named = os.environ.get("TUTTI_HOST_CXX", "").split()
    for name in (*named[-1:], *_COMPILERS):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    raise CompilerMissing(
        "make a simulated SDK", f"no {', '.join(_COMPILERS)} on PATH", "To get one: sudo apt-get install g++."
    )


def _key(kind: str, files: list[Path], *more: str) -> str:
    digest = hashlib.sha256(kind.encode())
    for path in files:
        digest.update(f"\n{path.name}\n".encode())
        digest.update(path.read_bytes())
    for text in more:
        digest.update(f"\n{text}".encode())
    return digest.hexdigest()
