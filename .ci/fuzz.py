"""The software controller under a fuzzer: build the target, run it, keep its corpus, or replay the corpus without one.

    python .ci/fuzz.py --seconds 30     libFuzzer under ASan and UBSan; new inputs go to build/fuzz/found
    python .ci/fuzz.py --merge          native/fuzz/corpus anew: the fewest inputs that reach what all of them reach
    python .ci/fuzz.py --replay --runs 200    any compiler: each kept input, then so many seeded mutations

The target is native/fuzz; what an input means and what is checked stands in native/fuzz/README.md.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
CORPUS = NATIVE / "fuzz" / "corpus"
BUILD = ROOT / "build" / "fuzz"
FLAGS = ("-std=c++20", "-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=all")
INCLUDES = ("-I", str(NATIVE), "-I", str(NATIVE / "include"))
LONGEST_INPUT = 2048
ENVIRONMENT = {
    **os.environ,
    # Sessions allocate and free much: a short memory of freed blocks is enough, and several times as fast.
    "ASAN_OPTIONS": "quarantine_size_mb=8:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def fuzzing_compiler() -> str | None:
    """A clang++ whose libFuzzer links; None when there is none."""
    for name in (os.environ.get("CLANGXX"), "clang++-19", "clang++-18", "clang++-17", "clang++-16", "clang++"):
        if not name or not shutil.which(name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "empty.cpp"
            source.write_text(
                "#include <cstddef>\n#include <cstdint>\n"
                'extern "C" int LLVMFuzzerTestOneInput(const uint8_t *, size_t) { return 0; }\n'
            )
            command = [name, "-fsanitize=fuzzer,address,undefined", str(source), "-o", str(source.with_suffix(""))]
            if subprocess.run(command, check=False, capture_output=True).returncode == 0:
                return name
    return None


def build(
    compiler: str,
    name: str,
    compile_flags: tuple[str, ...],
    link_flags: tuple[str, ...],
    *more: str,
    instead: Mapping[str, Path] = MappingProxyType({}),
) -> Path:
    """The target's program ``name``; sources whose text and headers did not change are not compiled again.

    ``instead`` puts a file in the place of the controller's of that name: how a test plants a mistake.
    """
    sources = [*sorted((NATIVE / "controller").glob("*.cpp")), *(NATIVE / "fuzz" / each for each in more)]
    sources = [instead.get(each.name, each) for each in sources]
    common = hashlib.sha256(repr((compiler, FLAGS, compile_flags)).encode())
    for part in ("controller", "fuzz", "include"):
        for header in sorted((NATIVE / part).rglob("*.h")):
            common.update(header.read_bytes())
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)

    def compiled(source: Path) -> Path:
        key = common.copy()
        key.update(source.read_bytes())
        place = source.parent if source in instead.values() else folder
        out = place / f"{source.stem}-{key.hexdigest()[:16]}.o"
        if not out.exists():
            unfinished = out.with_suffix(".part")
            command = [compiler, *FLAGS, *compile_flags, *INCLUDES, "-c", str(source), "-o", str(unfinished)]
            if subprocess.run(command, check=False).returncode != 0:
                raise SystemExit(f"{source.name} does not compile for the fuzz target")
            unfinished.replace(out)
        return out

    # One at a time: a second process waits, and finds everything compiled.
    with (folder / "lock").open("w") as lock, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        objects = list(pool.map(compiled, sources))
        if not instead:
            for old in set(folder.glob("*.o")) - set(objects):
                old.unlink()
    program = folder / name if not instead else next(iter(instead.values())).with_suffix("")
    if subprocess.run(
        [compiler, *link_flags, *map(str, objects), "-pthread", "-o", str(program)], check=False
    ).returncode:
        raise SystemExit("the fuzz target does not link")
    return program


def fuzzer() -> Path:
    """The libFuzzer program; ends the script when no compiler has libFuzzer."""
    compiler = fuzzing_compiler()
    if compiler is None:
        raise SystemExit("no clang++ with libFuzzer on this machine (Debian: clang-19 libclang-rt-19-dev)")
    return build(
        compiler,
        "controller_fuzz",
        ("-O1", "-fsanitize=fuzzer-no-link,address,undefined"),
        ("-fsanitize=fuzzer,address,undefined",),
        "model.cpp",
        "session.cpp",
    )


def replayer(instead: Mapping[str, Path] = MappingProxyType({})) -> Path:
    """The same target with a main of its own, by any C++ compiler. -O0: it is compiled more often than it runs."""
    sanitize = "-fsanitize=address,undefined"
    sources = ("model.cpp", "session.cpp", "standalone.cpp")
    compiler = os.environ.get("CXX", "g++")
    return build(compiler, "controller_replay", ("-O0", sanitize), (sanitize,), *sources, instead=instead)


def fuzz(seconds: int) -> int:
    """Fuzz for so long; 0 when nothing was found. A crashing input is left in build/fuzz."""
    program = fuzzer()
    found = BUILD / "found"
    found.mkdir(exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-max_len={LONGEST_INPUT}", "-timeout=20", "-rss_limit_mb=2048"]
    options += [f"-artifact_prefix={BUILD}/", "-print_final_stats=1"]
    return subprocess.run([program, *options, found, CORPUS], check=False, env=ENVIRONMENT).returncode


def merge() -> int:
    """Write the corpus again from what was found, the corpus and the seeds."""
    program = fuzzer()
    with tempfile.TemporaryDirectory() as folder:
        seeds, least = Path(folder) / "seeds", Path(folder) / "least"
        subprocess.run([sys.executable, NATIVE / "fuzz" / "seeds.py", seeds], check=True)
        least.mkdir()
        found = [BUILD / "found"] if (BUILD / "found").is_dir() else []
        # Without counters: what counts is which edges are reached, not how often, or the corpus would be large.
        options = ["-set_cover_merge=1", "-use_counters=0", f"-max_len={LONGEST_INPUT}"]
        command = [program, *options, least, seeds, CORPUS, *found]
        code = subprocess.run(command, check=False, env=ENVIRONMENT).returncode
        if code == 0:
            for old in CORPUS.iterdir():
                old.unlink()
            for each in least.iterdir():
                shutil.copy(each, CORPUS / each.name[:16])
            # The seeds stay whatever they add: each is a scenario with a name.
            for each in seeds.iterdir():
                shutil.copy(each, CORPUS / each.name)
    return code


def replay(runs: int, seed: int) -> int:
    """Each kept input once, then ``runs`` mutations."""
    program = replayer()
    command = [program, "--runs", str(runs), "--seed", str(seed), CORPUS]
    return subprocess.run(command, check=False, env=ENVIRONMENT, cwd=BUILD).returncode


def main(arguments: list[str]) -> int:
    """Parse the arguments; do one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seconds", type=int, help="fuzz for so long")
    what.add_argument("--merge", action="store_true", help="write the corpus again")
    what.add_argument("--replay", action="store_true", help="replay the corpus, without a fuzzer")
    parser.add_argument("--runs", type=int, default=0, help="mutations after a replay")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations")
    options = parser.parse_args(arguments)
    if options.merge:
        return merge()
    return replay(options.runs, options.seed) if options.replay else fuzz(options.seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
