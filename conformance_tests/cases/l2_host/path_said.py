"""The path that was really used is printed with every result."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

from tutti_hal.conformance_tests.case import Observations, Per, case
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen
from tutti_hal.conformance_tests.subject import facts_of

_SMALL = ("--requests", "2", "--layers", "1", "--memory", "--drives", "1", "--budget-mib", "16")

#: Name of the axis value -> the verb and its arguments, and whether it runs on the last arch rather than the first.
_RESULTS = {
    "replay": (("demo", *_SMALL), False),
    "replay_json": (("demo", *_SMALL, "--json"), True),
    "file": (("demo", "--file", "{file}", "--memory", "--drives", "1"), True),
}
_LIMIT_S = 60


@case(
    "profile/path_said",
    level="L2",
    clauses=("profile.path.said",),
    per=Per.VENDOR,
    axes={"result": tuple(_RESULTS)},
    budget_s=_LIMIT_S + 5.0,
    quick=False,
)
def path_said(run: Run) -> Observations:
    """A verb that prints a result names the profile, the arch and the kind of controller that it used."""
    # The software controllers have threads of their own, for which a simulated arch has no room.
    known = run.profile.record.archs
    here = [arch for arch in run.profile.backend.probe.archs if arch in known] or list(known)
    archs = [arch for arch in here if not facts_of(run.profile, arch).simulated]
    words, last = _RESULTS[str(run.axes["result"])]
    profile = f"{run.profile.vendor}:{archs[-1 if last else 0]}"
    sent = run.scratch / "sent"
    sent.write_bytes(run.random.bytes(100_000))
    # Named by the variable, so that what is printed cannot be what stood on the command line.
    environment = os.environ | {"TUTTI_PROFILE": profile, "COLUMNS": "200", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "tutti_hal", *(word.format(file=sent) for word in words)]
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, cwd=run.scratch, check=False
    )
    return {"profile": profile, "code": ended.returncode, "out": ended.stdout[:8000], "err": ended.stderr[-2000:]}


@path_said.judge
def _(seen: Seen) -> None:
    clause, printed = "profile.path.said", seen["out"]
    seen.equal(clause, "the exit code", seen["code"], 0)
    if seen.axes["result"] == "replay_json":
        table = json.loads(printed) if seen["code"] == 0 else {}
        profile, controller = str(table.get("profile", "")), str(table.get("controller", ""))
    else:
        found = {one: re.search(rf"(?m)^\s*{one}\s+(\S.*)$", printed) for one in ("profile", "controller")}
        profile, controller = (match[1] if match else "" for match in found.values())
    seen.equal(clause, "the profile and arch that are printed", re.split(r"[ ,]", profile)[0], seen["profile"])
    kind = re.search(r"\b(software|null|hardware|real|emulated)\b", controller)
    seen.holds(clause, "the kind of controller is printed", kind is not None, controller)
