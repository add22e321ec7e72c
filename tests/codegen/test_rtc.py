"""A run-time compiler as a program: what it is given, what it says; one that hangs or dies ends nobody else."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.codegen.conftest import record_of
from tutti_hal.codegen import render
from tutti_hal.errors import ArchRefused, BuildError, CompilerMissing
from tutti_hal.record import Record
from tutti_hal.toolchain import Toolchain, compiler
from tutti_hal.toolchain.compiler import compile_unit
from tutti_hal.toolchain.rtc_program import flattened

#: A compiler whose code is the text that it was given, with its flags before it.
SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *code, log_text[256];
int mtrtcVersion(int *major, int *minor) { *major = 5; *minor = 2; return 0; }
int mtrtcCreateProgram(void **p, const char *text, const char *name, int n, const char **headers, const char **names) {
    size_t size = strlen(text) + 4096;
    code = malloc(size);
    snprintf(code, size, "name %s\\n", name);
    for (int i = 0; i < n; ++i) { strcat(code, names[i]); strcat(code, headers[i] ? " given\\n" : " not given\\n"); }
    strcat(code, text);
    *p = code;
    return 0;
}
int mtrtcCompileProgram(void *p, int n, const char **flags) {
    (void)p;
    for (int i = 0; i < n; ++i) {
        if (strcmp(flags[i], "--hang") == 0) sleep(60);
        if (strcmp(flags[i], "--die") == 0) abort();
        if (strstr(flags[i], "mp_99")) {
            snprintf(log_text, sizeof log_text, "error: unsupported GPU architecture: mp_99");
            return 6;
        }
        strcat(code, flags[i]);
        strcat(code, "\\n");
    }
    return 0;
}
int mtrtcGetProgramLogSize(void *p, size_t *size) { (void)p; *size = strlen(log_text) + 1; return 0; }
int mtrtcGetProgramLog(void *p, char *text) { (void)p; strcpy(text, log_text); return 0; }
int mtrtcGetFatBinSize(void *p, size_t *size) { (void)p; *size = strlen(code); return 0; }
int mtrtcGetFatBin(void *p, char *data) { (void)p; memcpy(data, code, strlen(code)); return 0; }
int mtrtcDestroyProgram(void **p) { free(*p); return 0; }
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """MUSA's record with a run-time compiler in its root, and no compiler driver anywhere."""
    source, library = tmp_path / "rtc.c", tmp_path / "lib" / "libmtrtc.so.5"
    library.parent.mkdir()
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=60)
    found = record_of("musa")
    for variable in (*found.toolchain.driver_env, "MUSA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("MUSA_HOME", str(tmp_path))
    return replace(found, toolchain=replace(found.toolchain, drivers=("no-such-mcc",)))


def built(record: Record, folder: Path, arch: str = "mp_31") -> str:
    chain = Toolchain(record)
    folder.mkdir(exist_ok=True)
    return compile_unit(chain, chain.find(), record.archs[arch], render(record, arch, "saxpy"), folder).read_text(
        "utf-8"
    )


def test_it_is_taken_where_no_driver_is_found(record: Record, tmp_path: Path) -> None:
    chain = Toolchain(record)
    found = chain.find()
    assert found.library == tmp_path / "lib" / "libmtrtc.so.5"
    assert chain.version(found) == "libmtrtc.so.5 5.2"
    text = built(record, tmp_path / "out")
    assert text.startswith("name saxpy.mu\nstdint.h given\n")
    assert text.endswith("-std=c++17\n--offload-arch=mp_31\n")
    assert "#define TT_WAVE_WIDTH 32u" in text, "the headers beside the unit are part of the text"
    assert '#include "' not in text


def test_a_driver_comes_first_unless_the_record_prefers_otherwise(record: Record, tmp_path: Path) -> None:
    driver = tmp_path / "bin" / "mcc"
    driver.parent.mkdir()
    driver.touch(mode=0o755)
    chain = replace(record.toolchain, drivers=("mcc",))
    assert Toolchain(replace(record, toolchain=chain)).find().path == driver
    preferred = replace(record, toolchain=replace(chain, prefer_rtc=True))
    assert Toolchain(preferred).find().library == tmp_path / "lib" / "libmtrtc.so.5"


def test_an_arch_that_it_does_not_know(record: Record, tmp_path: Path) -> None:
    arch = replace(record.archs["mp_31"], name="mp_99", vars={"arch": "mp_99"})
    with pytest.raises(ArchRefused, match="unsupported GPU architecture: mp_99"):
        built(replace(record, archs={"mp_31": arch}), tmp_path / "out")


def test_one_that_dies_is_an_error_and_not_our_end(record: Record, tmp_path: Path) -> None:
    assert record.toolchain.rtc is not None
    rtc = replace(record.toolchain.rtc, flags=("--die",))
    with pytest.raises(BuildError, match="exit -6"):
        built(replace(record, toolchain=replace(record.toolchain, rtc=rtc)), tmp_path / "out")


def test_one_that_hangs_is_ended(record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "COMPILE_LIMIT_S", 3)
    assert record.toolchain.rtc is not None
    rtc = replace(record.toolchain.rtc, flags=("--hang",))
    with pytest.raises(BuildError, match="no end after 3 s"):
        built(replace(record, toolchain=replace(record.toolchain, rtc=rtc)), tmp_path / "out")


def test_neither_driver_nor_library(record: Record, tmp_path: Path) -> None:
    (tmp_path / "lib" / "libmtrtc.so.5").unlink()
    with pytest.raises(CompilerMissing, match=r"libmtrtc\.so\.5.*") as refused:
        Toolchain(record).find()
    assert "no-such-mcc on PATH" in refused.value.found


def test_a_header_is_put_in_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "unit.cu").write_text('#include "sub/a.h"\n#include "b.h"\n#include <c.h>\nunit\n', encoding="utf-8")
    (tmp_path / "sub" / "a.h").write_text('#include "../b.h"\na\n', encoding="utf-8")
    (tmp_path / "b.h").write_text("b\n", encoding="utf-8")
    words = flattened(tmp_path / "unit.cu").split()
    assert words == ["b", "a", "#include", "<c.h>", "unit"]
