"""The conformance suite's own cases of L7, run in the guest; the evidence is handed to the host."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from rig.case import Guest, case
from rig.qemu import Iommu, Machine, drive_bdf

_PIECE = 1 << 20


@case((Machine(), Machine(iommu=Iommu.TRANSLATE)), timeout_s=600, fresh=True)
def l7_of_the_suite(guest: Guest) -> None:
    """`tutti-hal certify` runs every case of L7 in the guest, on the drive beside its driver: none may fail."""
    from rig import p2p

    p2p.load()
    out = Path("/tmp/evidence")
    words = ["certify", "--profile", "host:threads-w32", "--level", "L7", "--case", "beside/*", "--jobs", "1"]
    words += ["--machine", "qemu-nvme", "--out", str(out)]
    environment = {**os.environ, "TUTTI_CERTIFY_DRIVE": drive_bdf(0)}
    with subprocess.Popen(
        [sys.executable, "-m", "tutti_hal", *words], env=environment, stderr=subprocess.PIPE, text=True
    ) as certify:
        assert certify.stderr is not None
        for line in certify.stderr:
            guest.say(line.rstrip())
    guest.check(out.is_dir(), f"certify wrote its evidence (exit {certify.returncode})")
    _hand_over(guest, out)
    verdicts = [json.loads(line) for line in (out / "verdicts.jsonl").read_text().splitlines()]
    wrong = [row for row in verdicts if row["id"].startswith("beside/") and row["verdict"] != "PASS"]
    for row in wrong:
        guest.say(f"{row['verdict']} {row['id']}: {row.get('reason')}")
    passed = sum(row["id"].startswith("beside/") and row["verdict"] == "PASS" for row in verdicts)
    guest.say(f"{passed} cases of L7 passed")
    guest.equal([row["id"] for row in wrong], [], "cases of L7 that did not pass")
    guest.check(passed, "some passed")
    guest.equal(p2p.unload(), 0, "the module unloads")


def _hand_over(guest: Guest, folder: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(folder, arcname="l7")
    data = packed.getvalue()
    name = "l7.tar.gz" if not Path("/sys/kernel/iommu_groups/0").exists() else "l7-iommu.tar.gz"
    for at in range(0, len(data), _PIECE):
        piece = base64.b64encode(data[at : at + _PIECE]).decode()
        guest.ask("keep", name=name, data=piece, first=at == 0)
