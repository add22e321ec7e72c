"""The worker process: ``python -m tutti_hal.conformance_tests.runner.worker FD PARENT``.

It keeps one subject, and runs what it is told through the socket FD, one instance after another, until that is closed.
Its standard output and error belong to the cases, whose log they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.case import Case, Instance
from tutti_hal.conformance_tests.catalogue import cases_of, catalogue
from tutti_hal.conformance_tests.execute import ended_by, execute, prepare
from tutti_hal.conformance_tests.outcome import Outcome
from tutti_hal.conformance_tests.runner.channel import Channel
from tutti_hal.conformance_tests.subject import Subject, SubjectSpec, profile_of
from tutti_hal.native import ffi_and_library

if TYPE_CHECKING:
    from tutti_hal.profile import Profile

#: What names a profile: of a subject its profile, arch and record.
_Named = tuple[str, str, str]

#: What cases, rendering and compiling import when they are first used.
_HEAVY = ("numpy", "numpy.random", "cffi", "jinja2", "yaml", "tutti_hal.toolchain", "tutti_hal.codegen.render")

_PR_SET_PDEATHSIG = 1


class _Worker:
    """What is kept between instances."""

    def __init__(self, spec: SubjectSpec, warm: Mapping[_Named, Profile]) -> None:
        self._spec = spec
        self._warm = warm
        self._subject: Subject | None = None
        self._cases: dict[str, Case] = {}

    def run(self, order: Mapping[str, Any], channel: Channel) -> None:
        """Run one instance and report: ``begins`` when its budget starts, ``ended`` with the outcome."""
        axes, seed = dict(order["axes"]), int(order["seed"])
        ran = False
        try:
            instance = Instance(self._case(order["case"], order["module"], order["file"]), axes, self._spec.arch)
            if self._subject is None:
                self._subject = Subject(self._spec, self._warm.get(_named(self._spec)))
            prepare(self._subject, instance)
        except Exception as error:
            end, detail = ended_by(error)
            outcome = Outcome(order["id"], seed, end, detail)
        else:
            ran = True
            channel.send({"said": "begins"})
            outcome = execute(self._subject, instance, seed)
        _flush()
        channel.send({"said": "ended", "ran": ran, "outcome": outcome.to_json()})

    def _case(self, name: str, module: str, file: str) -> Case:
        """A case. Only its own module is loaded, if it is there: the run has checked the whole catalogue."""
        if name not in self._cases:
            self._cases |= {case.name: case for case in cases_of(module, Path(file))}
        if name not in self._cases:  # its observing half was written elsewhere
            self._cases |= {case.name: case for case in catalogue(self._spec.cases).cases}
        return self._cases[name]


def _flush() -> None:
    """Bring every buffered line to the log while it is still this case's."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a case may have closed it
            stream.flush()
    ctypes.CDLL(None).fflush(None)


def die_with(parent: int) -> None:
    """End when the run ends, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _named(spec: SubjectSpec) -> _Named:
    return spec.profile, spec.arch, spec.record


def warm(subjects: Sequence[SubjectSpec]) -> dict[_Named, Profile]:
    """Load what every worker needs, read the profiles of these subjects, open their runtimes, and no device."""
    for name in _HEAVY:
        importlib.import_module(name)
    catalogue()
    ffi_and_library()
    found = {_named(one): profile_of(one) for one in subjects}
    for profile in found.values():
        profile.backend.runtime().open_runtime(profile)
        profile.backend.simulation()
    return found


def serve(link: socket.socket, profiles: Mapping[_Named, Profile]) -> int:
    """Serve a channel until its other end is closed.

    Args:
        link: the channel's socket.
        profiles: profiles that were read before, by :func:`warm`.
    """
    channel = Channel(link)
    # A worker that is told to end, or dies, leaves word of where it was.
    faulthandler.enable()
    faulthandler.register(signal.SIGTERM, chain=True)
    hello = channel.receive()
    if hello is None:
        return 0
    worker = _Worker(SubjectSpec.from_json(hello["subject"]), profiles)
    while (order := channel.receive()) is not None:
        worker.run(order, channel)
    return 0


def main(argv: list[str]) -> int:
    """Serve the socket until its other end is closed."""
    die_with(int(argv[2]))
    descriptor = int(argv[1])
    os.set_inheritable(descriptor, False)
    return serve(socket.socket(fileno=descriptor), {})


if __name__ == "__main__":
    sys.exit(main(sys.argv))
