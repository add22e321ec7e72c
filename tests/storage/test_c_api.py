"""The C API: its records against NumPy's and Python's numbers, programs in C over it, and what it refuses."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from storage_rig import image

from tutti_hal import errors
from tutti_hal.errors import CApiUnbuildable
from tutti_hal.storage import Access, Flags, Operation, Reason, Status, initial_dtype, request_dtype, result_dtype
from tutti_hal.storage.c_api import Built, build, building, calls
from tutti_hal.storage.c_api.mapped import writable

pytestmark = pytest.mark.storage

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent / "c_api"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread")
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Built:
    if COMPILER is None:
        pytest.skip("no C compiler on this machine")
    try:
        return build(tmp_path_factory.mktemp("library"))
    except CApiUnbuildable as error:
        pytest.skip(f"{error.found}")


def compiled(source: Path, library: Built, folder: Path) -> Path:
    assert COMPILER is not None
    program = folder / source.stem
    subprocess.run([COMPILER, *STRICT, str(source), *library.flags.split(), "-o", str(program)], check=True)
    return program


def said(program: Path, *args: object) -> str:
    done = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def test_records_and_numbers_are_those_of_the_runtime(tmp_path: Path) -> None:
    """By a C compiler and, for the records, by its own word: the header alone, no Python in it."""
    if COMPILER is None:
        pytest.skip("no C compiler on this machine")
    records = {"request": request_dtype(), "initial": initial_dtype(), "result": result_dtype()}
    numbers = {f"TUTTI_STATUS_{one.name}": int(one) for one in Status}
    numbers |= {f"TUTTI_REASON_{one.name}": int(one) for one in Reason}
    numbers |= {f"TUTTI_{one.name}": int(one) for kind in (Operation, Flags, Access) for one in kind}
    numbers["TUTTI_STORAGE_VERSION"] = calls.VERSION
    lines = [f'printf("{name} %lld\\n", (long long){name});' for name in numbers]
    for name, record in records.items():
        lines.append(f'printf("{name} %d\\n", (int)sizeof(tutti_{name}));')
        for field in record.names:
            where = f"(int)offsetof(tutti_{name}, {field}), (int)sizeof(((tutti_{name} *)0)->{field})"
            lines.append(f'printf("{name}.{field} %d %d\\n", {where});')
    source = tmp_path / "layout.c"
    body = "\n".join(lines)
    source.write_text(f'#include "tutti_storage.h"\n#include <stdio.h>\nint main(void) {{\n{body}\nreturn 0;\n}}\n')
    program = tmp_path / "layout"
    subprocess.run([COMPILER, *STRICT, "-I", building.HEADER.parent, source, "-o", program], check=True)
    expected = [f"{name} {value}" for name, value in numbers.items()]
    for name, record in records.items():
        expected.append(f"{name} {record.itemsize}")
        expected += [f"{name}.{field} {kind[1]} {kind[0].itemsize}" for field, kind in record.fields.items()]
    assert said(program).splitlines() == expected
    text = building.HEADER.read_text(encoding="utf-8")
    assert set(re.findall(r"TUTTI_(?:STATUS|REASON)_\w+(?= =)", text)) == {
        name for name in numbers if name.startswith(("TUTTI_STATUS_", "TUTTI_REASON_"))
    }


def test_header_is_cplusplus_and_old_c_too(tmp_path: Path) -> None:
    for name, dialect in (("cc", "c99"), ("c++", "c++17")):
        compiler = shutil.which(name) or pytest.skip(f"no {name} on this machine")
        suffix = "c" if name == "cc" else "cpp"
        source = tmp_path / f"one.{suffix}"
        source.write_text('#include "tutti_storage.h"\n')
        command = [compiler, f"-std={dialect}", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        subprocess.run([*command, "-I", building.HEADER.parent, source], check=True)


def test_each_function_of_the_header_stands_before_one_of_python() -> None:
    header = building.HEADER.read_text(encoding="utf-8")
    declared = set(re.findall(r"\btutti_storage_(\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
    behind = {name for name in vars(calls.Calls) if not name.startswith("_")}
    assert declared == behind - {"end"} | {"version", "error_id", "error"}


def test_example_moves_bytes_through_a_file(library: Built, tmp_path: Path) -> None:
    path = image(tmp_path, "drive.img", 4 << 20)
    out = said(compiled(ROOT / "examples/storage_roundtrip.c", library, tmp_path), path)
    assert out.splitlines() == ["4194304 bytes in blocks of 4096", "262144 bytes written, read back and compared"]
    pieces = [path.read_bytes()[at : at + 4096] for at in range(0, 64 * 4096, 4096)]
    wanted = bytes((i * 2654435761 % 2**32 >> 13) % 256 for i in range(4096))
    assert pieces[63] == wanted
    assert path.read_bytes()[64 * 4096 :] == bytes((4 << 20) - 64 * 4096)


def test_threads_and_a_process_that_ends_with_its_runtime_open(library: Built, tmp_path: Path) -> None:
    drives = "[{name: a, kind: memory, nbytes: 1MiB}, {name: b, kind: memory, nbytes: 1MiB}]"
    deployment, application = tmp_path / "deployment.yaml", tmp_path / "application.yaml"
    deployment.write_text(f"deployment: 1\nprofile: host:threads-w32\ndrives: {drives}\n")
    # Fewer batches than threads: back-pressure is met.
    application.write_text("application: 1\nring: {batches: 2}\n")
    assert said(compiled(HERE / "threads.c", library, tmp_path), deployment, application) == "4 threads, 0 failed\n"


def test_wrong_calls_have_a_status_and_an_id(library: Built, tmp_path: Path) -> None:
    out = said(compiled(HERE / "refusals.c", library, tmp_path), image(tmp_path, "drive.img", 1 << 20))
    assert out == (HERE / "refusals.txt").read_text(encoding="utf-8")


def test_a_python_without_a_shared_library_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _: None)
    monkeypatch.setattr(building.sys, "base_prefix", str(tmp_path))
    with pytest.raises(errors.CApiUnbuildable, match=r"TT-STORAGE-C-API.*no shared library of itself.*--enable-shared"):
        building._shared_python()


@pytest.mark.usefixtures("library")
def test_absent_headers_compiler_and_folder_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(errors.CApiUnbuildable, match="can be written"):
        build(tmp_path / "file" / "folder")
    with monkeypatch.context() as patch:
        patch.setattr(sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
        with pytest.raises(errors.CApiUnbuildable, match=r"no Python\.h"):
            build(tmp_path)
    with monkeypatch.context() as patch:
        patch.setenv("CC", "false")
        with pytest.raises(errors.BuildError):
            build(tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.CompilerMissing):
        build(tmp_path)


def test_what_memory_is_writable() -> None:
    import mmap

    with mmap.mmap(-1, 4 * 4096) as memory:
        view = memoryview(memory)
        import numpy as np

        address = np.frombuffer(view, np.uint8).ctypes.data
        assert writable(address, 4 * 4096)
        assert writable(address + 5, 1)
        view.release()
    assert not writable(4096, 4096)
    assert not writable(address, 1 << 46)
    assert not writable(0, 1)
    assert not writable(address, 0)


def test_every_error_has_a_status() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert calls.status_of(kind.__new__(kind)) not in (Status.OK, Status.NOT_RUN, Status.PENDING)
    assert calls.status_of(MemoryError()) is Status.RESOURCE_EXHAUSTED
    assert calls.status_of(ZeroDivisionError()) is Status.INTERNAL
