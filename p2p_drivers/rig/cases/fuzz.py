"""Requests at random, from a seed: the module refuses or serves, and nothing of it stays."""

from __future__ import annotations

import ctypes
import errno
import os
import random
from collections import Counter
from typing import TYPE_CHECKING

from rig import p2p
from rig.case import Guest, case
from rig.qemu import Iommu, Machine

if TYPE_CHECKING:
    from tutti_hal.nvme import p2p_uapi

CALLS = int(os.environ.get("TUTTI_P2P_FUZZ_CALLS", "100000"))
SEED = int(os.environ.get("TUTTI_P2P_FUZZ_SEED", "1"))

#: What a member may be: edges of what is checked, among them every power of two and its neighbours.
EDGES = sorted({max(0, (1 << bit) + step) for bit in (*range(0, 34), 47, 62, 63) for step in (-1, 0, 1)})


class Fuzzer:
    """Fills requests: mostly with what could be served, with one member or more gone wrong."""

    def __init__(self, client: p2p.Client, nvme_fd: int) -> None:
        self.client = client
        self.random = random.Random(SEED)
        self.nvme_fd = nvme_fd
        self.buffer = ctypes.create_string_buffer(1 << 16)
        self.where = ctypes.addressof(self.buffer)
        self.memory = p2p.Memory(1 << 20)
        self.controllers = [1]
        self.pins = [1]
        self.queues = [1]

    def served(self, kind: type) -> dict[str, int]:
        """Members with which a request may well be served."""
        pick = self.random.choice
        page = self.memory.address + p2p.PAGE * self.random.randrange(200)
        controller = pick(self.controllers)
        ctypes.c_uint.from_buffer(self.buffer, 0).value = controller
        name = kind.__name__
        if name == "Attach":
            return {"bus": 1, "nvme_fd": self.nvme_fd}
        if name == "Detach":
            return {"controller": controller}
        if name == "Pin":
            return {
                "provider": pick((1, 1, 2, 2, 3)),
                "address": pick((page, p2p.GRANULE * self.random.randrange(256))),
                "length": p2p.PAGE * pick((1, 2, 16, 32)),
                "nr_controllers": 1,
                "controllers": self.where,
            }
        if name == "Runs":
            return {"pin": pick(self.pins), "controller": controller, "capacity": 64, "runs": self.where + 256}
        if name == "Unpin":
            return {"pin": pick(self.pins), "flags": pick((0, 1))}
        if name == "QueueCreate":
            return {
                "controller": controller,
                "sq_pin": pick(self.pins),
                "cq_pin": pick(self.pins),
                "cq_offset": p2p.PAGE,
                "sq_entries": pick((2, 16, 64)),
                "cq_entries": pick((2, 16, 64)),
            }
        if name == "QueueDelete":
            return {"queue": pick(self.queues)}
        if name == "Notify":
            return {"eventfd": -1}
        return {}

    def request(self) -> p2p_uapi.Request:
        """The next request."""
        api = self.client.uapi
        kinds = [kind for kind in api.STRUCTURES.values() if issubclass(kind, api.Request)]
        busy = (api.Pin, api.Unpin, api.QueueCreate, api.QueueDelete, api.Runs)
        # Leaving the only controller makes everything else senseless, until it is attached again: seldom.
        weights = [0.02 if kind is api.Detach else 6.0 if kind in busy else 1.0 for kind in kinds]
        kind = self.random.choices(kinds, weights)[0]
        made: p2p_uapi.Request = kind(**self.served(kind))
        members = [name for name in made.offsets() if isinstance(getattr(made, name), int)]
        while self.random.random() < 0.4:
            name = self.random.choice(members)
            limit = 1 << 8 * width(made, name)
            value = self.random.choice(EDGES) % limit
            signed = name in ("fd", "nvme_fd", "eventfd")
            setattr(made, name, value - limit if signed and value >= limit // 2 else value)
        return made

    def remember(self, made: object) -> None:
        """Handles of what was served are used again."""
        api = self.client.uapi
        if isinstance(made, api.Detach):
            self.remember(self.client.attach())
        elif isinstance(made, api.Attach):
            # The one that is attached; now and then one that was.
            self.controllers = [*self.controllers[-1:], *[made.controller] * 9]
        elif isinstance(made, api.Pin):
            self.pins = [*self.pins[-15:], made.pin]
        elif isinstance(made, api.QueueCreate):
            self.queues = [*self.queues[-15:], made.queue]


def width(made: p2p_uapi.Request, name: str) -> int:
    """Bytes of a member."""
    offsets = made.offsets()
    later = [offset for offset in offsets.values() if offset > offsets[name]]
    return int(min(later, default=made.size()) - offsets[name])


@case((Machine(), Machine(iommu=Iommu.TRANSLATE)), timeout_s=400.0)
def random_requests(guest: Guest) -> None:
    """Requests at random, 100,000 of them: all end, some are served, and after a close nothing is in use."""
    with p2p.client(guest) as client:
        nvme_fd = os.open(f"/dev/{p2p.controller_name(0)}", os.O_RDWR)
        fuzzer = Fuzzer(client, nvme_fd)
        fuzzer.remember(client.attach())
        found: Counter[str] = Counter()
        for _ in range(CALLS):
            made = fuzzer.request()
            error, answer = client.ask(made)
            if not error:
                fuzzer.remember(answer)
                found[type(made).__name__] += 1
            else:
                found[errno.errorcode.get(error, str(error))] += 1
        guest.say(f"seed {SEED}, {CALLS} requests: {dict(sorted(found.items()))}")
        for name in ("Pin", "Runs", "Unpin", "QueueCreate", "QueueDelete", "EINVAL", "ENOENT", "EFAULT"):
            guest.check(found[name], f"not one {name} in {CALLS} requests")
        client.close()
        with p2p.Client(guest) as after:
            guest.equal(after.attach().queues_ours, 0, "queue pairs in use after all")
            usage = after.must(after.uapi.Usage())
            guest.equal((usage.pins, usage.bytes, usage.queues), (0, 0, 0), "what is charged after all")
        os.close(nvme_fd)
        fd = os.open("/dev/nvme0n1", os.O_RDONLY)
        guest.check(os.pread(fd, 64, 0), "the kernel's own driver still reads")
        os.close(fd)
