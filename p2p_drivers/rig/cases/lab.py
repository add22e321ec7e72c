"""The machines of the cases: one with four unlike drives, and the same behind an IOMMU."""

from __future__ import annotations

from rig.qemu import Drive, Iommu, Machine, Namespace

# By index: the ordinary drive (two block sizes); one with 4 KiB blocks and transfers of at most 8 KiB; one that has no
# queue id to spare beside the driver's two; one whose shadow doorbells are on.
ORDINARY, SMALL, FULL, SHADOW = range(4)
DRIVES = (
    Drive((Namespace(64), Namespace(32, 4096))),
    Drive((Namespace(32, 4096),), mdts=1, entries=32),
    Drive((Namespace(16),), queues=2),
    Drive((Namespace(16),), shadow_doorbells=True),
)
LAB = Machine(DRIVES)
TRANSLATED = Machine(DRIVES, iommu=Iommu.TRANSLATE)
PASSED_THROUGH = Machine(DRIVES, iommu=Iommu.PASSTHROUGH)
EVERY_IOMMU = (LAB, TRANSLATED, PASSED_THROUGH)
