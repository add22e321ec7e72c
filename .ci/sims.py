"""The simulated vendors in CI: cases of every level up to the ring, on each; then the packages, judged again.

    python .ci/sims.py              a slice that shows each vendor's host calls, primitives, refusals and ring
    python .ci/sims.py --quick      the whole quick run of each
    python .ci/sims.py --whole      every case up to L5, on the older MUSA SDK, too

A package must verify as *simulated*, and must be refused as *hardware*. 0: all of it held.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv" / "bin" / "python")
OUT = ROOT / "out" / "sims"

#: What a gate runs of each. What says nothing of a vendor is the gate `conformance`'s; compilers take most of the time.
SLICE = (
    *(
        "identity/*",
        "record/reference*",
        "record/numbers*",
        "alias/*",
        "claims/*",
        "compile/attributes*",
        "compile/masks*",
    ),
    *("host/device.*", "host/memory.*", "host/module.*", "host/launch.*", "host/stream.*", "host/event.*"),
    "prim/*",
)
RING = (
    *("ring/round_trip*", "ring/completion.late*", "ring/deadline.late_twice*", "ring/completion.small_queue*"),
    *("ring/doorbell.coalesced*", "hazard/h08*", "hazard/h11*", "hazard/h20*"),
)

#: One arch of each, and the SDK with known defects where there is one; `musa:mp_22` has 128 lanes and no ballot.
PROFILES = ("musa-sim:mp_31", "musa-sim:mp_22@4.3.3", "maca-sim", "hip-sim:gfx942")


def _tutti(*words: str) -> int:
    return subprocess.run([PYTHON, "-m", "tutti_hal", *words], cwd=ROOT, check=False).returncode


def held(profile: str, how: str) -> bool:
    """Certify one profile and verify what came of it."""
    folder = OUT / profile.replace(":", "-").replace("@", "-")
    words = ["certify", "--profile", profile, "--level", "L5", "--out", str(folder), "--force"]
    words += [] if how == "--whole" else ["--quick"]
    words += [word for one in (*SLICE, *RING) for word in ("--case", one)] if how == "" else []
    began = time.monotonic()
    certified = _tutti(*words)
    # A slice passes no level, and a quick run certifies none: what counts is that nothing in it is red.
    red = _reds(folder)
    verified = _tutti("verify", str(folder), "--as", "simulated")
    refused = _tutti("verify", str(folder), "--as", "hardware")
    good = certified in (0, 1) and not red and verified == 0 and refused == 1
    print(
        f"-- {profile}: {'held' if good else 'FAILED'} in {time.monotonic() - began:.0f} s; red: {red or 'none'}",
        flush=True,
    )
    return good


def _reds(folder: Path) -> list[str]:
    import json

    try:
        rows = (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ["no package"]
    return [row["id"] for row in map(json.loads, rows) if row["blocks"]]


def main(words: list[str]) -> int:
    """Run one form; 2 on an unknown word."""
    if words not in ([], ["--quick"], ["--whole"]):
        print(__doc__, file=sys.stderr)
        return 2
    how = words[0] if words else ""
    profiles = PROFILES if how != "--quick" else ("musa-sim", "maca-sim", "hip-sim")
    # Each is run, also after one that failed.
    results = [held(profile, how) for profile in profiles]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
