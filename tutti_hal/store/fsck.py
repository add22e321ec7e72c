"""Looking a store over: every structure, every payload, and whether both ways of recovery agree. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from tutti_hal.errors import ObjectDamaged, StoreDamaged
from tutti_hal.store.device import BlockDevice
from tutti_hal.store.keys import printable
from tutti_hal.store.options import StoreOptions
from tutti_hal.store.recovery import Recovered, Way, read_checkpoint, recover
from tutti_hal.store.store import Store


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be; ``bad`` unless the store does without it."""

    bad: bool
    text: str


@dataclass(frozen=True)
class FsckReport:
    """What was looked at, and what was found.

    Attributes:
        objects: whose payloads were summed.
        object_bytes: of them.
        way: by which the state was found: SCAN where no checkpoint is whole, or where it was asked for.
        findings: in the order in which they were found.
    """

    objects: int
    object_bytes: int
    way: Way
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Nothing bad was found."""
        return not any(finding.bad for finding in self.findings)


def fsck(device: BlockDevice, *, scan: bool = False) -> FsckReport:
    """Reads all of a store. The device stays the caller's.

    Args:
        device: where it lies.
        scan: judge what the log alone says, whatever the checkpoints are.

    Raises:
        StoreAbsent, StoreVersionUnknown: there is none that this build reads.
        StoreDamaged: no superblock is whole.
        StoreDeviceError: the device failed.
    """
    findings: list[Finding] = []
    by_scan = recover(device, Way.SCAN)
    findings += [Finding("segment" in note, note) for note in by_scan.notes]
    for slot in range(2):
        if read_checkpoint(device, by_scan.superblock, slot) is None:
            findings.append(Finding(False, f"checkpoint slot {slot} holds none that is whole"))
    way = Way.SCAN if scan else Way.CHECKPOINT
    if not scan:
        try:
            findings += _differences(recover(device, Way.CHECKPOINT), by_scan)
        except StoreDamaged as error:
            findings.append(Finding(True, error.found))
            way = Way.SCAN
    store = Store.open(device, StoreOptions(read_only=True, way=way))
    entries = store.entries()
    for entry in entries:
        try:
            store.get(entry.key)
        except ObjectDamaged as error:
            findings.append(Finding(True, f"{printable(entry.key)}: {error.found}"))
    return FsckReport(len(entries), sum(entry.payload_bytes for entry in entries), way, tuple(findings))


def _differences(by_checkpoint: Recovered, by_scan: Recovered) -> list[Finding]:
    """Keys for which the log alone says something else than the checkpoint and what follows it."""
    found = []
    for key in sorted(by_checkpoint.entries.keys() | by_scan.entries.keys()):
        if by_checkpoint.entries.get(key) != by_scan.entries.get(key):
            found.append(Finding(True, f"{printable(key)}: the log and the checkpoint differ: a record is broken"))
    return found
