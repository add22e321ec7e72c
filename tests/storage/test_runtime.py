"""The runtime on HOST: bytes through raw namespaces and files, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from storage_rig import MIB, Rig, image, noise

from tutti_hal.storage import NO_DRIVE, Operation, Reason, SoftwareDrive, Status, make_requests, path_uri

pytestmark = pytest.mark.storage


def test_bytes_go_to_a_raw_namespace_and_back() -> None:
    with Rig() as rig:
        runtime = rig.runtime
        target = runtime.open("raw://d0?offset=1MiB&size=2MiB")
        memory = runtime.allocate(2 * MIB)
        data = memory.numpy()
        source = noise(2 * MIB)
        data[:] = source
        said = runtime.submit(make_requests(Operation.WRITE, target, nbytes=2 * MIB, memory=memory.handle, tag=7))
        assert said.io is not None
        assert said.accepted.all()
        (written,) = runtime.wait(said.io)
        assert (written["status"], written["reason"], written["tag"]) == (Status.OK, Reason.NONE, 7)
        assert (written["done_bytes"], written["drive"]) == (2 * MIB, NO_DRIVE)
        # MDTS 5 of 4 KiB pages: 128 KiB a command.
        assert written["commands"] == 16
        runtime.release(said.io)
        assert rig.stored("d0", MIB, 2 * MIB) == source.tobytes()
        assert rig.stored("d0", 0, MIB) == bytes(MIB)
        data[:] = 0xEE
        offsets = np.arange(512) * 4096
        back = runtime.submit_all(
            make_requests(
                Operation.READ,
                target,
                nbytes=4096,
                target_offset=offsets,
                memory=memory.handle,
                memory_offset=offsets[::-1].copy(),
            )
        )
        assert (back["status"] == Status.OK).all()
        assert (data.reshape(512, 4096)[::-1] == source.reshape(512, 4096)).all()
        runtime.close(target)
        runtime.unregister(memory)


def test_bytes_go_to_a_file_that_is_a_drives_image(tmp_path: Path) -> None:
    path = image(tmp_path, "drive.img", 4 * MIB)
    with Rig(SoftwareDrive(name="d0", path=path)) as rig:
        runtime = rig.runtime
        target = runtime.open(path_uri(str(path)))
        info = runtime.target(target)
        assert (info.size, info.block, info.drives, info.extents) == (4 * MIB, 4096, ("d0",), 1)
        memory = runtime.allocate(MIB)
        memory.numpy()[:] = source = noise(MIB, 2)
        done = runtime.submit_all(
            make_requests(
                [Operation.WRITE, Operation.FLUSH],
                target,
                nbytes=[MIB, 0],
                target_offset=[MIB, 0],
                memory=[memory.handle, 0],
            )
        )
        assert done["status"].tolist() == [Status.OK, Status.OK]
    assert path.read_bytes() == bytes(MIB) + source.tobytes() + bytes(2 * MIB)
