"""Run the rig's cases on real kernels in QEMU: ``python -m rig --kernels "6.1 6.12"`` from the folder p2p_drivers.

One line for each case, a summary line for each kernel, and as the last line ``N passed, M failed``. Exit 0 when none
failed and at least one passed, 1 when one failed, 2 when the rig itself cannot run here.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rig import accelerator, build, initrd, kernel_log, kernels, kmod, packages, qemu
from rig.case import Case, all_cases
from rig.errors import RigError
from rig.guest import EmulatorCrashed, End, GuestDied, GuestProcess
from rig.host_side import answer

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
BOOT_TIMEOUT_S = {qemu.Accelerator.KVM: 60.0, qemu.Accelerator.TCG: 240.0}
DEFAULT_KERNELS = "6.1 6.12"
# QEMU's own crashes that a kernel's run survives; each is said.
CRASHES = 4


@dataclass
class Tally:
    """What happened so far."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """What every guest of a run shares: the emulator, a busybox, the cache, the run's folder and the Python."""

    cache: Path
    folder: Path
    emulator: Path
    busybox: Path
    python: Path
    mirror: str


def say(text: str) -> None:
    """One line of progress, at once."""
    print(text, flush=True)


def bench(folder: Path, python: Path) -> Bench:
    """Fetch what every kernel line needs."""
    cache = packages.cache_folder()
    mirror = packages.mirror_of_host()
    trixie = packages.Archive("trixie", cache, mirror)
    emulator = trixie.unpack_closure(cache / "qemu", ("qemu-system-x86", "seabios"))
    tree = trixie.unpack(cache / "busybox", ("busybox-static",))
    for below in ("bin", "usr/bin"):
        if (tree / below / "busybox").exists():
            return Bench(cache, folder, emulator, tree / below / "busybox", python, mirror)
    raise RigError("unpacking busybox-static", f"no busybox below {tree}", f"rm -r {tree}; try again")


def agent_words(python: Path, folders: Mapping[str, Path]) -> tuple[list[str], list[str]]:
    """The agent's command in the guest, and its environment; ``folders`` are where modules lie, by variable."""
    environment = [
        *(f"{name}={folder}" for name, folder in folders.items()),
        f"PYTHONPATH={HERE.parent}",
        "PYTHONDONTWRITEBYTECODE=1",
        "PYTHONUNBUFFERED=1",
        "HOME=/tmp",
        # What the host has compiled need not be compiled again by an emulated processor; what is added is thrown away.
        f"TUTTI_CACHE_DIR={os.environ.get('TUTTI_CACHE_DIR') or Path.home() / '.cache' / 'tutti-hal'}",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ]
    return [str(python), "-m", "rig.agent"], environment


def choose_accelerator(setup: Bench, kernel: kernels.Kernel) -> qemu.Accelerator:
    """The accelerator of this run. A guest is booted to see whether KVM works: nested KVM may open and then hang."""
    asked = accelerator.wanted(os.environ.get("TUTTI_RIG_ACCEL"))
    known = asked or accelerator.remembered(setup.cache)
    if known is not None:
        return known
    found = qemu.Accelerator.TCG
    if accelerator.opens():
        files = qemu.Files(setup.folder / "probe")
        machine = qemu.Machine(drives=(), gpu_mib=0, kernel_words=("loglevel=7",))
        qemu.make_images(machine, files)
        empty = setup.folder / "probe" / "initrd"
        empty.write_bytes(initrd.archive([]))
        emulator = qemu.Emulator(setup.emulator)
        words = qemu.arguments(machine, files, kernel.image, empty, qemu.Accelerator.KVM)
        if accelerator.boots([*emulator.program(), *words], files.console):
            found = qemu.Accelerator.KVM
        else:
            say(f"KVM opens but boots no guest within {accelerator.PROBE_S:.0f} s: TCG is used, which is slower")
    accelerator.remember(setup.cache, found)
    return found


def by_machine(cases: Sequence[Case]) -> Iterator[tuple[qemu.Machine, list[Case]]]:
    """Cases in groups that may share one boot; a case that asks for a fresh guest is alone."""
    shared: dict[qemu.Machine, list[Case]] = {}
    alone: list[tuple[qemu.Machine, list[Case]]] = []
    for case in cases:
        if case.fresh:
            alone.append((case.machine, [case]))
        else:
            shared.setdefault(case.machine, []).append(case)
    yield from shared.items()
    yield from alone


def build_all(archive: packages.Archive, kernel: kernels.Kernel) -> dict[str, Path]:
    """The module and the fakes built for ``kernel``: where they lie, by the variable that tells the guest."""
    start = time.monotonic()
    folders = {
        "TUTTI_P2P_MODULE": build.modules(archive, kernel, HERE.parent) / "tutti_p2p.ko",
        "RIG_FAKES": build.modules(archive, kernel, HERE / "fakes"),
        "RIG_FAKES_PLAIN": build.modules(archive, kernel, HERE / "fakes", variables=("FAKE_PLAIN=1",)),
    }
    say(f"  modules for {kernel.release} are built, {time.monotonic() - start:.0f} s")
    return folders


class KernelRun:
    """The cases of one kernel line."""

    def __init__(
        self,
        setup: Bench,
        kernel: kernels.Kernel,
        accel: qemu.Accelerator,
        tally: Tally,
        folders: Mapping[str, Path],
        patience: float = 1.0,
    ) -> None:
        self._patience = patience
        self._setup = setup
        self._kernel = kernel
        self._accel = accel
        self._tally = tally
        self._folder = setup.folder / kernel.line.name
        self._crashes = 0
        command, environment = agent_words(setup.python, folders)
        modules = kmod.Modules.of(kernel.modules)
        self._initrd = initrd.build(self._folder / "initrd", setup.busybox, modules, command, environment)

    def run(self, cases: Sequence[Case]) -> None:
        """Run ``cases``, booting as few guests as they allow."""
        for machine, group in by_machine(cases):
            left = list(group)
            while left:
                left = self._one_guest(machine, left)

    def _one_guest(self, machine: qemu.Machine, cases: list[Case]) -> list[Case]:
        """Run cases in one guest; returns those still to run because one broke the guest."""
        files = qemu.Files(self._folder / "guest")
        shutil.rmtree(files.folder, ignore_errors=True)
        qemu.make_images(machine, files)
        emulator = qemu.Emulator(self._setup.emulator)
        words = qemu.arguments(machine, files, self._kernel.image, self._initrd, self._accel)
        argv = [*emulator.program(), *words]
        start = time.monotonic()
        left = list(cases)
        try:
            with GuestProcess(
                argv, files, boot_timeout_s=self._patience * BOOT_TIMEOUT_S[self._accel], answer=answer
            ) as guest:
                took = time.monotonic() - start
                say(f"  guest {guest.release} ({machine.label()}) up in {took:.1f} s")
                faults = kernel_log.judge(guest.boot_log, ())
                if faults:
                    self._fail(cases[0], "; ".join(faults), 0.0)
                    return cases[1:]
                while left:
                    if not self._one_case(guest, left[0]):
                        return left[1:]
                    left.pop(0)
        except EmulatorCrashed as why:
            # Nothing ran yet, or the case at hand is among those left.
            self._crashes += 1
            say(f"  QEMU crashed, {'once more' if self._crashes < CRASHES else 'too often'}: {why}")
            if self._crashes < CRASHES:
                return left
            for case in left:
                self._fail(case, "QEMU crashes too often", time.monotonic() - start)
        except GuestDied as why:
            # Only a boot ends here: what a case does to the guest is caught where the case is known.
            for case in cases:
                self._fail(case, f"the guest did not come up: {why}", time.monotonic() - start)
        return []

    def _one_case(self, guest: GuestProcess, case: Case) -> bool:
        """Run one case and say how it ended; False when the guest must not be used again."""
        start = time.monotonic()
        try:
            end = guest.run(case, lambda text: say(f"         {text}"), case.timeout_s * self._patience)
        except EmulatorCrashed:
            raise
        except GuestDied as why:
            self._fail(case, str(why), time.monotonic() - start)
            return False
        took = time.monotonic() - start
        faults = judge(end)
        if faults:
            shown = "\n".join(f"      | {line}" for line in end.log[-60:])
            self._fail(case, "; ".join(faults) + (f"\n{shown}" if shown else ""), took)
            # A check that did not hold leaves the kernel as it was; trouble in its log, or a case that hung, may not.
            return end.verdict == "fail" and not end.hung and not kernel_log.trouble_in(end.log)
        if end.verdict == "skip":
            self._tally.skipped += 1
            say(f"  skip   {case.name} ({took:.1f} s): {end.why}")
        else:
            self._tally.passed += 1
            say(f"  pass   {case.name} ({took:.1f} s, {end.checks} checks): {case.sentence}")
        return True

    def _fail(self, case: Case, why: str, took: float) -> None:
        self._tally.failed += 1
        self._tally.failures.append(f"{self._kernel.line.name} {case.name} ({case.machine.label()})")
        say(f"  FAIL   {case.name} ({took:.1f} s): {why}")


def judge(end: End) -> list[str]:
    """Every fault of a case's end: its own, and those of the kernel log; empty for a pass or a clean skip."""
    faults = [] if end.verdict in ("pass", "skip") else [end.why]
    return faults + kernel_log.judge(end.log, end.expects if end.verdict == "pass" else ())


def chosen(pattern: str, without: Sequence[str] = ()) -> list[Case]:
    """The cases whose name contains ``pattern`` and none of ``without``; RigError when there is none."""
    cases = [case for case in all_cases() if pattern in case.name and not any(text in case.name for text in without)]
    if not cases:
        names = " ".join(sorted({case.name for case in all_cases()}))
        raise RigError(f"choosing cases like {pattern!r}", "there is none", f"choose from: {names}")
    return cases


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="rig", description=__doc__.split("\n\n")[0] if __doc__ else None)
    names = " ".join(known.name for known in kernels.LINES)
    parser.add_argument("--kernels", default=DEFAULT_KERNELS, help=f"kernel lines, from: {names}")
    parser.add_argument("--cases", default="", metavar="TEXT", help="only cases whose name contains TEXT")
    parser.add_argument(
        "--without", action="append", default=[], metavar="TEXT", help="none of the cases whose name contains TEXT"
    )
    parser.add_argument(
        "--patience", type=float, default=1.0, metavar="X", help="time limits times X: a loaded machine"
    )
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    parser.add_argument("--fetch", action="store_true", help="only fetch what the kernels need")
    parser.add_argument("--keep", type=Path, help="keep the run's files (console, logs) in this folder")
    python = PROJECT / ".venv" / "bin" / "python"
    parser.add_argument("--python", type=Path, default=python, help="Python with the product, run in the guest")
    return parser.parse_args(argv)


def go(options: argparse.Namespace, folder: Path) -> int:
    """Run what ``options`` ask for, with the run's files in ``folder``."""
    start = time.monotonic()
    cases = chosen(options.cases, options.without)
    if options.list:
        for case in cases:
            say(f"{case.name} [{case.machine.label()}] {case.sentence}")
        return 0
    if not options.python.exists():
        raise RigError("running the product in the guest", f"{options.python} is absent", "make setup")
    tally = Tally()
    setup = bench(folder, options.python)
    for name in options.kernels.split():
        kernel_line = kernels.line(name)
        archive = packages.Archive(kernel_line.suite, setup.cache, setup.mirror)
        kernel = kernels.fetch(archive, kernel_line)
        if options.fetch:
            say(f"{name}: {kernel.release} is in {kernel.tree}")
            continue
        accel = choose_accelerator(setup, kernel)
        before, begun = Tally(tally.passed, tally.failed, tally.skipped), time.monotonic()
        say(f"kernel {name} ({kernel.release}, Debian {kernel_line.suite}), emulated, {accel.value.upper()}")
        try:
            folders = build_all(archive, kernel) if any(case.needs_module for case in cases) else {}
        except build.CannotBuild as why:
            tally.skipped += len(cases)
            say(f"kernel {name}: its {len(cases)} cases are skipped: {why}")
            continue
        KernelRun(setup, kernel, accel, tally, folders, options.patience).run(cases)
        counts = f"{tally.passed - before.passed} passed, {tally.failed - before.failed} failed"
        counts += f", {tally.skipped - before.skipped} skipped"
        say(f"kernel {name} ({kernel.release}): {counts}, {time.monotonic() - begun:.0f} s")
    if options.fetch:
        return 0
    for failure in tally.failures:
        say(f"failed: {failure}")
    say(f"{time.monotonic() - start:.0f} s in all" + (f", {tally.skipped} skipped" if tally.skipped else ""))
    say(f"{tally.passed} passed, {tally.failed} failed")
    return 0 if tally.passed and not tally.failed else 1


def main(argv: Sequence[str] | None = None) -> int:
    """The command; see the module."""
    options = parse(sys.argv[1:] if argv is None else argv)
    try:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            return go(options, options.keep.resolve())
        with tempfile.TemporaryDirectory(prefix="tutti-rig-") as folder:
            return go(options, Path(folder))
    except RigError as why:
        say(f"rig: {why}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
