"""What must happen in a process of its own: a fork, a handle from elsewhere, a runtime that nobody used yet.

A function that runs apart is a plain one of a case's module: it gets the subject and a JSON value, and returns one.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from typing import Any

from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec

_PROGRAM = "from tutti_hal.conformance_tests.cases.l2_host.apart import main; main()"
#: Begins the line of standard output that is the answer.
_MARK = "@answer "


def apart(run: Run, function: str, value: Any = None, *, timeout_s: float = 8.0) -> dict[str, Any]:
    """Run ``module:function`` in a fresh Python with the same subject, and wait for it.

    Returns:
        ``code`` (exit code, negative for a signal, None where it outran its time), ``answer`` (what it returned, None
        where it did not) and ``said`` (standard error, its end).
    """
    order = json.dumps({"spec": run.subject.spec.to_json(), "function": function, "value": value})
    command, pipe = [sys.executable, "-c", _PROGRAM], subprocess.PIPE
    # A session of its own, so that a child that it forked ends with it.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            told, said = process.communicate(order, timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return {"code": None, "answer": None, "said": f"no end within {timeout_s} s"}
    answers = [line for line in told.splitlines() if line.startswith(_MARK)]
    answer = json.loads(answers[-1].removeprefix(_MARK)) if answers else None
    return {"code": process.returncode, "answer": answer, "said": said[-600:]}


def main() -> None:
    """The other process: read the order, do it, print the answer."""
    order = json.load(sys.stdin)
    module, _, name = order["function"].partition(":")
    function = getattr(importlib.import_module(module), name)
    answer = function(Subject(SubjectSpec.from_json(order["spec"])), order["value"])
    print(f"{_MARK}{json.dumps(answer)}", flush=True)
