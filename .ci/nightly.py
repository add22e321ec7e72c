"""The long forms of what `.ci/gates.py` runs short: each a part with a budget, its result kept in docs/nightly.json.

    python .ci/nightly.py [PART...]     all parts, or those named; a part's result is written when the part ends
    python .ci/nightly.py --limit S PART...    campaigns and soak end within S seconds, complete or not
    python .ci/nightly.py --age         how old docs/nightly.json is: days, and product files changed since

A part passes, fails, is *incomplete* where its time was over before its work, or is *not run*, with the reason. To add
one, add an entry to PARTS.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
SUMMARY = ROOT / "docs" / "nightly.json"
OUT = ROOT / "out" / "nightly"
FORMAT = 1

#: Where the product is, for the count of files that changed.
PRODUCT = ("tutti_hal", "backends", "kernels_templates", "conformance_tests", "native", "cmake", "CMakeLists.txt")

#: What an exit status means; the fuzzer and pytest know only 0 and others.
_VERDICTS = {0: "pass", 2: "incomplete"}


def _of_json(*names: str) -> Callable[[str], dict[str, Any]]:
    """Some fields of the JSON object that a part prints."""

    def counts(said: str) -> dict[str, Any]:
        table = json.loads(said)
        found = {name: table[name] for name in names}
        if "wrong" in table:
            found["wrong"] = len(table["wrong"])
        return found

    return counts


def _of_fuzzer(said: str) -> dict[str, Any]:
    found = re.findall(r"stat::(number_of_executed_units|average_exec_per_sec|new_units_added): *(\d+)", said)
    return {name: int(value) for name, value in found}


def _of_pytest(said: str) -> dict[str, Any]:
    found: dict[str, int] = {}
    for line in re.findall(r"^\d+ (?:passed|failed|skipped|deselected).* in .*s", said, flags=re.M):
        for count, word in re.findall(r"(\d+) (passed|failed|skipped)", line):
            found[word] = found.get(word, 0) + int(count)
    return found


def _of_rig(said: str) -> dict[str, Any]:
    ends = re.findall(r"^(\d+) passed, (\d+) failed", said, flags=re.M)
    return {"passed": int(ends[-1][0]), "failed": int(ends[-1][1])} if ends else {}


def _no_rig() -> str | None:
    missing = [tool for tool in ("apt-get", "dpkg-deb", "make") if shutil.which(tool) is None]
    if missing:
        return f"the rig needs {', '.join(missing)} to unpack Debian's kernels"
    return None if os.geteuid() == 0 else "the rig builds for 6.12 in a chroot of its own, as root"


def _no_libfuzzer() -> str | None:
    from fuzz import fuzzing_compiler  # beside this file

    return None if fuzzing_compiler() else "no clang++ with libFuzzer is on this machine"


@dataclass(frozen=True)
class Part:
    """One long form.

    Attributes:
        name: of the part.
        budget_s: after which it is stopped; a part that can end itself in time is told to.
        command: what runs, in the repository.
        what: for a person.
        counts: numbers out of what it printed on standard output.
        strict: an exit status of 2 is a failure, too.
        time_limit_s: that it is told to end within, by an option of its own; 0 where it has none.
        absent: why it cannot run here, None where it can.
        on_request: why it runs only when it is named; empty where it always does.
    """

    name: str
    budget_s: int
    command: tuple[str, ...]
    what: str
    counts: Callable[[str], dict[str, Any]] = lambda _: {}
    strict: bool = False
    time_limit_s: int = 0
    absent: Callable[[], str | None] = lambda: None
    on_request: str = ""


CAMPAIGN = (PYTHON, "-m", "tutti_hal.conformance_tests.campaign", "--json")
SOAK = (PYTHON, "-m", "tutti_hal", "bench", "soak", "--profile", "host", "--json")
PARTS = (
    Part(
        "campaign",
        2700,
        (*CAMPAIGN, "--wide", "--commands", "10000000", "--save", "out/nightly/campaign-wide.json"),
        "10,000,000 commands of random workloads with random faults, in real time",
        _of_json("commands", "asked", "trials", "unexplained", "by_arch", "examined", "seed", "wrong"),
        time_limit_s=2400,
    ),
    Part(
        "campaign-simulated",
        900,
        (*CAMPAIGN, "--commands", "500000", "--seed", "1000000", "--save", "out/nightly/campaign.json"),
        "500,000 commands more, deeper: stops, refusals, late completions, random and PCT schedules",
        _of_json("commands", "asked", "trials", "by_arch", "examined", "seed", "wrong"),
        time_limit_s=600,
    ),
    Part(
        "soak",
        2700,
        (*SOAK, "--commands", "100000000", "--slice", "2500000", "--state", "out/nightly/soak-state.json"),
        "100,000,000 commands over the null controller, from 0 and from just below 2^32, 2^48 and 2^63 commands",
        _of_json("commands", "asked", "complete", "starts"),
        time_limit_s=2400,
    ),
    Part(
        "fuzz",
        1200,
        (PYTHON, ".ci/fuzz.py", "--seconds", "600"),
        "the software controller under libFuzzer for 10 minutes",
        _of_fuzzer,
        strict=True,
        absent=_no_libfuzzer,
    ),
    Part(
        "sanitizers",
        3600,
        (PYTHON, ".ci/sanitizers.py", "--long"),
        "native code under ASan+UBSan and TSan, with every test of controller, engine and the ring's threads",
        _of_pytest,
        strict=True,
    ),
    Part(
        "exploration",
        3600,
        (PYTHON, "-m", "tutti_hal.conformance_tests.explore", "--json"),
        "all schedules of the ring's pieces, with larger bounds than in CI",
        _of_json("asked", "pieces", "schedules", "states", "exhausted", "cpu_s", "wrong"),
        time_limit_s=2400,
    ),
    Part(
        "sims",
        2 * 3600,
        (PYTHON, ".ci/sims.py", "--whole"),
        "every case up to L5 on the simulated MUSA (and its older SDK), MACA and HIP, the evidence judged again",
        strict=True,
    ),
    Part(
        "kills",
        900,
        ("env", "TUTTI_STORE_KILLS=100", PYTHON, "-m", "pytest", "-q", "tests/store/test_killed.py"),
        "100 writers of an object store killed at random, each store opened again and judged",
        _of_pytest,
        strict=True,
    ),
    Part(
        "rig",
        3600,
        ("make", "-C", "p2p_drivers", "rig-test", "KERNELS=6.1 6.12", "PATIENCE=2"),
        "the kernel module beside the stock nvme driver, on Debian's 6.1 and 6.12 in QEMU",
        _of_rig,
        strict=True,
        absent=_no_rig,
    ),
    Part(
        "rig-fuzz",
        3600,
        ("make", "-C", "p2p_drivers", "rig-fuzz", "KERNELS=6.1", "PATIENCE=2"),
        "100,000 random requests to the kernel module, on Debian's 6.1 in QEMU",
        _of_rig,
        strict=True,
        absent=_no_rig,
    ),
    Part(
        "self-test",
        8 * 3600,
        (PYTHON, "-m", "tutti_hal", "certify", "--profile", "host", "--self-test"),
        "every mutant of the product, each noticed",
        strict=True,
        on_request="it takes hours; name it",
    ),
)


def run(part: Part, limit_s: int) -> dict[str, Any]:
    """Run a part in a process group of its own: its row of the summary. If it can, it ends within ``limit_s``."""
    print(f"== {part.name}: {part.what} (budget {part.budget_s} s)", flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    _renew(part)
    said = OUT / f"{part.name}.txt"
    began = time.monotonic()
    with said.open("w", encoding="utf-8") as out:
        # libFuzzer and pytest speak on different streams: what is counted is looked for in both.
        error = subprocess.STDOUT if part.counts in (_of_fuzzer, _of_pytest) else None
        limit = ("--time-limit", str(min(part.time_limit_s, limit_s))) if part.time_limit_s else ()
        process = subprocess.Popen([*part.command, *limit], cwd=ROOT, start_new_session=True, stdout=out, stderr=error)
        reason = ""
        try:
            code = process.wait(timeout=part.budget_s)
        except (subprocess.TimeoutExpired, KeyboardInterrupt) as end:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = 124
            late = isinstance(end, subprocess.TimeoutExpired)
            reason = f"outran its budget of {part.budget_s} s" if late else "interrupted"
    seconds = time.monotonic() - began
    text = said.read_text(encoding="utf-8", errors="replace")
    verdict = _VERDICTS.get(code, "FAIL") if not part.strict else ("pass" if code == 0 else "FAIL")
    if code == 124:
        verdict = "incomplete"
    row: dict[str, Any] = {"verdict": verdict, "seconds": round(seconds, 1), "exit": code}
    if reason:
        row["reason"] = reason
    try:
        row["counts"] = part.counts(text)
    except (ValueError, KeyError) as error_in_it:
        row["counts"] = {}
        if verdict == "pass":
            row |= {"verdict": "FAIL", "reason": f"it printed no result: {error_in_it!r}"}
        elif verdict == "incomplete" and not reason:
            # Exit status 2 is also that of a command that could not run at all.
            row |= {"verdict": "FAIL", "reason": "it could not run"}
    return row


def _renew(part: Part) -> None:
    """A soak that came to its end begins anew; one that did not goes on, on the same tree."""
    state = OUT / "soak-state.json"
    mark = OUT / "soak-tree.txt"
    if part.name != "soak":
        return
    if state.exists():
        table = json.loads(state.read_text(encoding="utf-8"))
        finished = len(table["lives"]) == len(table["slices"])
        if finished or not mark.exists() or mark.read_text(encoding="utf-8") != _tree()["tree"]:
            state.unlink()
    mark.write_text(_tree()["tree"], encoding="utf-8")


def record(part: Part, row: dict[str, Any], where: dict[str, Any]) -> None:
    """Put a part's row into the summary; the other rows stay as they are, each with its own tree and date."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        table = _summary()
        table["parts"][part.name] = {"what": part.what, **row, "budget_s": part.budget_s, **where}
        order = {one.name: place for place, one in enumerate(PARTS)}
        table["parts"] = dict(sorted(table["parts"].items(), key=lambda item: order.get(item[0], len(order))))
        unfinished = SUMMARY.with_suffix(".part")
        unfinished.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(SUMMARY)


def _summary() -> dict[str, Any]:
    try:
        table: dict[str, Any] = json.loads(SUMMARY.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        table = {}
    return table if table.get("format") == FORMAT else {"format": FORMAT, "parts": {}}


def _where() -> dict[str, Any]:
    """On what a part was run: the tree, the product, the date, and the class of machine; no name of a host."""
    from tutti_hal.conformance_tests.package.product import file_sums, product_files, sums_digest
    from tutti_hal.machine import benchmark_facts

    # The native library differs from build to build of one tree.
    files = {name: path for name, path in product_files().items() if not name.startswith("lib/")}
    facts = benchmark_facts()
    machine = {key: facts[key] for key in ("cpu", "arch", "cpus", "memory_gib", "load_1min")}
    return {
        **_tree(),
        "product": sums_digest(file_sums(files)),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "nice": os.nice(0),
        "machine": machine,
    }


def _tree() -> dict[str, Any]:
    tree = _git("rev-parse", "HEAD^{tree}") or "unknown"
    return {"tree": tree, "changed": bool(_git("status", "--porcelain", "--", *PRODUCT))}


def _git(*words: str) -> str | None:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    done = subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True, env=environment)
    return done.stdout.strip() if done.returncode == 0 else None


def age() -> str:
    """One line on how stale the summary is."""
    if not SUMMARY.exists():
        return "docs/nightly.json: there is none; make nightly writes it"
    lines = []
    for name, row in _summary()["parts"].items():
        if row["verdict"] == "not run":
            lines.append(f"{name} not run ({row['reason']})")
            continue
        days = (datetime.now(UTC) - datetime.fromisoformat(row["date"])).days
        changed = _git("diff", "--name-only", row["tree"], "--", *PRODUCT)
        files = "an unknown number of" if changed is None else str(len(changed.splitlines()))
        lines.append(f"{name} {row['verdict']}, {days} days and {files} product files ago")
    return "docs/nightly.json: " + "; ".join(lines or ["empty"])


def main(words: list[str]) -> int:
    """Run the named parts, or all; 1 when one failed, 2 on an unknown name."""
    if words == ["--age"]:
        print(age())
        return 0
    limit_s = 1 << 30
    if words[:1] == ["--limit"] and len(words) > 1 and words[1].isdigit():
        limit_s, words = int(words[1]), words[2:]
    known = {part.name for part in PARTS}
    unknown = [name for name in words if name not in known]
    if unknown:
        print(f"no part named {', '.join(unknown)}; there are: {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    # What ends a job from outside ends a part, and is written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    failed = False
    for part in PARTS:
        if words and part.name not in words:
            continue
        reason = part.absent() or (part.on_request if part.name not in words else "")
        where = _where()  # as it begins: the tree may change while it runs
        row = {"verdict": "not run", "reason": reason} if reason else run(part, limit_s)
        failed = failed or row["verdict"] == "FAIL"
        record(part, row, where)
        print(
            f"== {part.name}: {row['verdict']} {row.get('reason', '')} {json.dumps(row.get('counts', {}))}", flush=True
        )
        if row.get("reason") == "interrupted":
            return 130
    print(f"written: {os.path.relpath(SUMMARY, ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
