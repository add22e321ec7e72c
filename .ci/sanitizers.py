"""The native code under sanitizers: engine and fibres under three of them, the whole library under ASan and UBSan.

What ThreadSanitizer cannot show is said in docs/engine.md: it proves no fence.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "sanitized"
#: What reaches the native code most widely for its seconds.
SUITES = (
    *(f"tests/controller/test_{name}.py" for name in ("admin", "fuzz", "io", "pointers", "registers", "sim")),
    "tests/simt/test_sim.py",
    "tests/storage/test_fiemap.py",
    "tests/storage/test_open_files.py",
)

LONG = (
    "tests/controller",
    *(f"tests/simt/test_{name}.py" for name in ("litmus", "memory", "sim", "threads")),
    *(f"tests/storage/test_{name}.py" for name in ("fiemap", "open_files")),
    *(f"tests/io_uring/test_{name}.py" for name in ("ring_threads", "ring_sim", "recovery", "campaign_wide")),
)


def call(*command: str, env: dict[str, str] | None = None) -> int:
    """Run a command in the repository; returns its exit code."""
    print("  $", *command, flush=True)
    return subprocess.run(command, check=False, cwd=ROOT, env=env).returncode


def build() -> Path:
    """The whole native library with AddressSanitizer and UndefinedBehaviorSanitizer."""
    tools = Path(sys.executable).parent
    # -O1: what the sanitizers ask for, and half the compile time of more.
    options = ["-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_FLAGS=-O1", "-DTUTTI_SANITIZE=address,undefined", "-G", "Ninja"]
    ninja = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    for command in (
        [str(tools / "cmake"), "-S", str(ROOT), "-B", str(BUILD), ninja, *options],
        [str(tools / "cmake"), "--build", str(BUILD), "--target", "tutti_native"],
    ):
        if call(*command) != 0:
            raise SystemExit("the sanitized library does not build")
    return BUILD / "native" / "libtutti_native.so"


def main(*, long: bool = False) -> int:
    """Both halves; 0 when both are clean. ``long`` is what `make nightly` runs: every test that reaches native code."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    failed = call(*pytest, "tests/simt/check_sanitizers.py", "--timeout", "300")
    compiler = os.environ.get("CXX", "g++")
    # libstdc++ too: the interpreter has no C++ in it, and the sanitizer looks for the real __cxa_throw when it starts.
    preload = [
        str(Path(subprocess.check_output([compiler, f"-print-file-name={name}"], text=True).strip()).resolve())
        for name in ("libasan.so", "libstdc++.so")
    ]
    env = {
        **os.environ,
        "TUTTI_NATIVE_LIBRARY": str(build()),
        "LD_PRELOAD": ":".join(preload),
        # Python keeps what it allocated until it exits; leaks of ours are looked for by the engine's own programs.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }
    suites, marked = (LONG, ()) if long else (SUITES, ("-m", "not slow"))
    failed += call(*pytest, *suites, *marked, "--timeout", "900" if long else "300", env=env)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(long="--long" in sys.argv[1:]))
