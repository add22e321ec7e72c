"""Queue pairs beside the kernel's own driver: placements, refusals, and every way in which they end."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

from rig import p2p
from rig.case import Guest, case
from rig.qemu import GPU_BDF, MIB, Drive, Iommu, Machine, drive_bdf, stamp

ANY_IOMMU = tuple(Machine(iommu=each) for each in Iommu)

# Two drives that serve, one with shadow doorbells, one that grants no more than its driver uses.
SHADOW, FEW = 2, 3
FOUR_DRIVES = Machine(drives=(Drive(), Drive(), Drive(shadow_doorbells=True), Drive(queues=2)))


@case(ANY_IOMMU)
def reads_in_every_placement(guest: Guest) -> None:
    """Rings and data in host memory and in the bar, in all four ways, read what the image holds."""
    with p2p.client(guest) as client:
        drive = client.attach()
        guest.check(drive.queues_stock >= 1, "the driver's own queue pairs are known")
        guest.equal(drive.queues_spare, drive.queues_granted - drive.queues_stock, "spare queue pairs")
        places = {
            "host": (p2p.Memory(p2p.GRANULE), p2p.Memory(p2p.GRANULE)),
            "bar": (p2p.Memory(p2p.GRANULE, gpu_offset=0), p2p.Memory(p2p.GRANULE, gpu_offset=1 << 20)),
        }
        for rings_in, (ring_memory, _) in places.items():
            rings = client.pin(ring_memory, drive.controller)
            for data_in, (_, data_memory) in places.items():
                data = client.pin(data_memory, drive.controller)
                pair = client.queue(drive.controller, rings)
                p2p.check_reads(guest, pair, data, f"rings in {rings_in}, data in {data_in}")
                client.must(client.uapi.QueueDelete(queue=pair.handle))
                client.must(client.uapi.Unpin(pin=data.handle))


@case()
def requests_that_are_refused(guest: Guest) -> None:
    """Reserved members, flags, overflows, foreign handles, alignment: each in its own way."""
    with p2p.client(guest) as client:
        api = client.uapi
        client.refuse(api.Negotiate(version_min=1, version_max=1), errno.EALREADY, "negotiated twice")
        raw = os.open(p2p.NODE, os.O_RDWR)
        error, _ = api.request(raw, api.Usage())
        guest.equal(error, errno.EPROTO, "a request before the version")
        error, _ = api.request(raw, api.Negotiate(version_min=2, version_max=9))
        guest.equal(error, errno.EPROTONOSUPPORT, "versions that do not meet")
        os.close(raw)
        client.refuse(api.Usage(reserved=(0, 1)), errno.EINVAL, "a reserved member")
        client.refuse(api.DescribeProvider(index=99), errno.ENOENT, "a provider past the last")
        client.refuse(api.Attach(domain=0, bus=77, nvme_fd=0), errno.ENODEV, "no such function")
        attach = client.attach_request()
        attach.flags = 1
        client.refuse(attach, errno.EINVAL, "a flag of attach")
        drive = client.attach()
        client.refuse(client.attach_request(), errno.EALREADY, "attached twice")

        memory = p2p.Memory(p2p.GRANULE)
        request, array = client.pin_request(memory, [drive.controller])
        for what, changes, wanted in (
            ("a flag", {"flags": 1}, errno.EINVAL),
            ("a reserved member", {"reserved": (1, 0)}, errno.EINVAL),
            ("no bytes", {"length": 0}, errno.EINVAL),
            ("a range that wraps", {"length": (1 << 64) - 1}, errno.EINVAL),
            ("half a page", {"length": 100}, errno.EINVAL),
            ("an odd address", {"address": memory.address + 8}, errno.EINVAL),
            ("nobody's memory", {"address": 1 << 20}, errno.EFAULT),
            ("no controller", {"nr_controllers": 0}, errno.EINVAL),
            ("more controllers than are attached", {"nr_controllers": 1 << 31}, errno.EINVAL),
            ("handles that cannot be read", {"controllers": 8}, errno.EFAULT),
            ("no such provider", {"provider": 77}, errno.EOPNOTSUPP),
            ("a file for host memory", {"fd": 0}, errno.EINVAL),
            ("no file for a dma-buf", {"provider": int(api.Provider.DMABUF)}, errno.EINVAL),
            ("no dma-buf", {"provider": int(api.Provider.DMABUF), "fd": client.fd}, errno.EINVAL),
            ("past the bar", {"provider": int(api.Provider.SIM), "address": 1 << 40}, errno.EINVAL),
        ):
            wrong, _ = client.pin_request(memory, [drive.controller])
            wrong.controllers = request.controllers
            for name, value in changes.items():
                setattr(wrong, name, value)
            client.refuse(wrong, wanted, f"pin: {what}")
        array[0] = 12345
        client.refuse(request, errno.ENOENT, "pin: a handle of nobody")
        array[0] = drive.controller
        guest.equal(client.must(api.Usage()).pins, 0, "refused pins are not charged")

        rings = client.pin(memory, drive.controller)
        error, _ = client.ask(api.Runs(pin=rings.handle, controller=drive.controller, first=1 << 40))
        guest.equal(error, errno.EINVAL, "runs past the last")
        for what, changes, wanted in (
            ("one entry", {"sq_entries": 1}, errno.EINVAL),
            ("too many entries", {"cq_entries": drive.max_entries + 1}, errno.EINVAL),
            ("a ring that wraps", {"sq_offset": (1 << 64) - p2p.PAGE}, errno.EINVAL),
            ("a ring past the pin", {"cq_offset": p2p.GRANULE}, errno.EINVAL),
            ("a ring off its page", {"sq_offset": 64}, errno.EOPNOTSUPP),
            ("no such pin", {"cq_pin": 777}, errno.ENOENT),
            ("no such controller", {"controller": 777}, errno.ENOENT),
        ):
            create = client.queue_request(drive.controller, rings)
            for name, value in changes.items():
                setattr(create, name, value)
            client.refuse(create, wanted, f"queue: {what}")
        usage = client.must(api.Usage())
        guest.equal((usage.pins, usage.bytes, usage.queues), (1, p2p.GRANULE, 0), "what is charged")
        pair = client.queue(drive.controller, rings)
        client.refuse(api.Unpin(pin=rings.handle, flags=1), errno.EBUSY, "unpin: a ring lies in it")
        other = client.pin(p2p.Memory(p2p.PAGE), drive.controller)
        client.refuse(api.Unpin(pin=other.handle), errno.EBUSY, "unpin: a queue pair can reach it")
        client.must(api.Unpin(pin=other.handle, flags=int(api.UnpinFlag.IDLE)))
        client.must(api.QueueDelete(queue=pair.handle))
        client.refuse(api.QueueDelete(queue=pair.handle), errno.ENOENT, "deleted twice")


@case(FOUR_DRIVES)
def wrong_file_is_refused(guest: Guest) -> None:
    """The file of another drive, or one that is open for reading only, does not attach a drive."""
    with p2p.client(guest) as client:
        error, answer = client.ask(client.attach_request(0, of=1))
        guest.equal((error, answer.refused), (errno.EOPNOTSUPP, int(client.uapi.Refused.FD)), "another drive's file")
        attach = client.attach_request(0)
        attach.nvme_fd = os.open(f"/dev/{p2p.controller_name(0)}", os.O_RDONLY)
        error, answer = client.ask(attach)
        guest.equal((error, answer.refused), (errno.EOPNOTSUPP, int(client.uapi.Refused.FD)), "a read-only file")
        first, second = client.attach(0), client.attach(1)
        memory = p2p.Memory(p2p.GRANULE)
        request, array = client.pin_request(memory, [first.controller, first.controller])
        client.refuse(request, errno.EINVAL, "pin: a controller named twice")
        request, array = client.pin_request(memory, [first.controller, second.controller])
        pin = client.must(request).pin
        del array
        for number, drive in enumerate((first, second)):
            data = p2p.Pinned(pin, memory, client.runs(pin, drive.controller))
            rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
            p2p.check_reads(guest, client.queue(drive.controller, rings), data, f"drive {number}", number)


@case(FOUR_DRIVES)
def shadow_doorbells_are_refused(guest: Guest) -> None:
    """A drive that takes doorbells from memory would ignore ours: it says so, and is refused."""
    with p2p.client(guest) as client:
        error, answer = client.ask(client.attach_request(SHADOW))
        guest.equal((error, answer.refused), (errno.EOPNOTSUPP, int(client.uapi.Refused.SHADOW)), "attach")


@case(FOUR_DRIVES)
def no_spare_queue_is_said(guest: Guest) -> None:
    """A drive that granted only what its driver uses has none for us, and says so before and after."""
    with p2p.client(guest) as client:
        drive = client.attach(FEW)
        guest.equal((drive.queues_granted, drive.queues_spare), (2, 0), "the plan")
        rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
        error, answer = client.ask(client.queue_request(drive.controller, rings))
        guest.equal((error, answer.refused), (errno.ENOSPC, int(client.uapi.Refused.NO_SPARE)), "a queue pair")


@case()
def every_spare_queue_and_back(guest: Guest) -> None:
    """All spare ids are given, each once, none of the driver's; one more is refused; all come back, also by a close."""
    with p2p.client(guest) as client:
        drive = client.attach()
        for _ in range(3):
            pairs = []
            for number in range(drive.queues_spare):
                rings = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=number << 20), drive.controller)
                pairs.append(client.queue(drive.controller, rings))
            wanted = set(range(drive.queues_stock + 1, drive.queues_granted + 1))
            guest.equal({pair.qid for pair in pairs}, wanted, "the ids")
            client.refuse(client.queue_request(drive.controller, rings), errno.ENOSPC, "one more")
            for pair in pairs:
                client.must(client.uapi.QueueDelete(queue=pair.handle))
        with p2p.Client(guest) as second:
            again = second.attach()
            guest.equal(again.queues_ours, 0, "in use after they were deleted")
            rings = second.pin(p2p.Memory(p2p.GRANULE), again.controller)
            second.queue(again.controller, rings)
        with p2p.Client(guest) as third:
            guest.equal(third.attach().queues_ours, 0, "in use after a close")


@case()
def freed_memory_stops_the_queues(guest: Guest) -> None:
    """The bar's memory is taken away under I/O: the generation changes, the queue pair ends, no byte comes later."""
    with p2p.client(guest) as client:
        drive = client.attach()
        rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
        data = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=0), drive.controller)
        watch = client.watch()
        before = client.uapi.Watch.decode(watch[:64])
        pair = client.queue(drive.controller, rings, entries=64)
        p2p.check_reads(guest, pair, data, "before")
        for number in range(40):
            pair.submit(2, data, number * 16)
        Path("/sys/module/tutti_p2p/parameters/sim_revoke").write_text("0")
        # From here on the owner may use the bytes for something else.
        data.memory.map[: 2 * p2p.PAGE] = b"\x5a" * (2 * p2p.PAGE)
        after = client.uapi.Watch.decode(watch[:64])
        watch.close()
        guest.check(after.generation > before.generation, "the generation changed")
        guest.equal(after.settled, after.generation, "it settled")
        events = client.events(2)
        kinds, causes = client.uapi.EventKind, client.uapi.Cause
        wanted = {
            (int(kinds.PIN), data.handle, int(causes.REVOKED)),
            (int(kinds.QUEUE), pair.handle, int(causes.REVOKED)),
        }
        guest.equal(set(events), wanted, "the events")
        time.sleep(0.3)
        guest.equal(data.memory.map[: 2 * p2p.PAGE], b"\x5a" * (2 * p2p.PAGE), "the canary")
        client.refuse(client.uapi.Runs(pin=data.handle, controller=drive.controller), errno.ESTALE, "its runs")
        client.must(client.uapi.QueueDelete(queue=pair.handle))
        client.must(client.uapi.Unpin(pin=data.handle))
        again = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=0), drive.controller)
        p2p.check_reads(guest, client.queue(drive.controller, rings), again, "after")


@case()
def reset_is_noticed(guest: Guest) -> None:
    """A reset of the drive takes the queue pair: an event says so, its id is free again, reads go on with a new one."""
    with p2p.client(guest) as client:
        drive = client.attach()
        rings = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=0), drive.controller)
        data = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
        for _ in range(3):
            pair = client.queue(drive.controller, rings)
            p2p.check_reads(guest, pair, data, "before a reset")
            Path(f"/sys/class/nvme/{drive.name.decode()}/reset_controller").write_text("1")
            found = client.events(1)
            wanted = (int(client.uapi.EventKind.QUEUE), pair.handle, int(client.uapi.Cause.RESET))
            guest.equal(found, [wanted], "the event")
            client.must(client.uapi.QueueDelete(queue=pair.handle))
            state = Path(f"/sys/class/nvme/{drive.name.decode()}/state")
            p2p.wait_for(lambda: state.read_text().strip() == "live", "the drive is live")  # noqa: B023
        p2p.check_reads(guest, client.queue(drive.controller, rings), data, "after resets")


@case()
def unbind_takes_everything(guest: Guest) -> None:
    """The driver is unbound under a queue pair: events, no mapping of the doorbells stays; rebound, all works again."""
    with p2p.client(guest) as client:
        drive = client.attach()
        rings = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=0), drive.controller)
        pair = client.queue(drive.controller, rings)
        child = os.fork()
        if child == 0:
            # The mapping is not for a child, and neither are requests.
            error, _ = client.ask(client.uapi.Usage())
            os._exit(0 if error == errno.EPERM else 1)
        guest.equal(os.waitpid(child, 0)[1], 0, "a child's request")
        driver = Path("/sys/bus/pci/drivers/nvme")
        (driver / "unbind").write_text(drive_bdf(0))
        found = client.events(2)
        kinds, removed = client.uapi.EventKind, int(client.uapi.Cause.REMOVED)
        wanted = {(int(kinds.QUEUE), pair.handle, removed), (int(kinds.CONTROLLER), drive.controller, removed)}
        guest.equal(set(found), wanted, "the events")
        client.refuse(client.queue_request(drive.controller, rings), errno.ENODEV, "a queue pair on a drive that left")
        mapped = Path("/proc/self/smaps").read_text().split("/dev/tutti_p2p")
        guest.check(len(mapped) >= 2, "the doorbells' mapping is in the list")
        guest.check(all("Rss:                   0 kB" in each for each in mapped[1:]), "and holds no page")
        client.must(client.uapi.Detach(controller=drive.controller))
        (driver / "bind").write_text(drive_bdf(0))
        p2p.wait_for(lambda: Path(f"/sys/bus/pci/devices/{drive_bdf(0)}/nvme").exists(), "the driver is back")
        name = p2p.controller_name(0)
        p2p.wait_for(lambda: Path(f"/sys/class/nvme/{name}/state").read_text().strip() == "live", "the drive is live")
        again = client.attach()
        fresh = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=1 << 20), again.controller)
        data = client.pin(p2p.Memory(p2p.GRANULE), again.controller)
        p2p.check_reads(guest, client.queue(again.controller, fresh), data, "after the rebind")


@case()
def killed_under_io(guest: Guest) -> None:
    """A process is killed with commands in flight, also while a child has its file: nothing of it stays."""
    p2p.load()
    for with_child in (False, True):
        ready, told = os.pipe()
        holder_ready, holder_told = os.pipe()
        victim = os.fork()
        if victim == 0:
            client = p2p.Client(guest)
            drive = client.attach()
            rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
            data = client.pin(p2p.Memory(p2p.GRANULE, gpu_offset=0), drive.controller)
            pair = client.queue(drive.controller, rings, entries=64)
            if with_child and os.fork() == 0:
                os.write(holder_told, b"%d" % os.getpid())
                time.sleep(30)
                os._exit(0)
            os.write(told, b"x")
            while True:
                pair.submit(2, data, 0)
                pair.complete()
        os.read(ready, 1)
        holder = int(os.read(holder_ready, 16)) if with_child else 0
        time.sleep(0.1)
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        with p2p.Client(guest) as client:
            guest.equal(client.attach().queues_ours, 0, f"queue pairs in use, with a child: {with_child}")
            usage = client.must(client.uapi.Usage())
            charged = (usage.pins, usage.bytes, usage.queues)
            guest.equal(charged, (0, 0, 0), f"what is charged, with a child: {with_child}")
        if holder:
            guest.equal(p2p.unload(), errno.EAGAIN, "the module is in use by the child")
            os.kill(holder, signal.SIGKILL)
            time.sleep(0.2)
    guest.equal(p2p.unload(), 0, "the module unloads")


@case(timeout_s=400.0)
def a_thousand_rounds(guest: Guest) -> None:
    """1,000 rounds of open, pin, queue pair, close leave memory and queue ids where they were."""

    def free_kib() -> int:
        Path("/proc/sys/vm/drop_caches").write_text("3")
        lines = Path("/proc/meminfo").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(("MemFree:",)))

    p2p.load()
    # One client stays, so that the drive need not be looked for each time.
    stays = p2p.Client(guest)
    stays.attach()
    memory, bar = p2p.Memory(p2p.GRANULE), p2p.Memory(p2p.GRANULE, gpu_offset=0)

    def rounds(count: int) -> None:
        for number in range(count):
            with p2p.Client(guest) as client:
                drive = client.attach()
                client.pin(memory, drive.controller)
                rings = client.pin(bar, drive.controller)
                if number % 10 == 0:
                    client.must(client.queue_request(drive.controller, rings))

    rounds(50)
    before, start = free_kib(), time.monotonic()
    rounds(1000)
    guest.say(f"{time.monotonic() - start:.1f} s for 1,000 rounds")
    lost = before - free_kib()
    guest.check(lost < 4096, f"memory that did not come back: {lost} KiB")
    stays.close()
    with p2p.Client(guest) as client:
        guest.equal(client.attach().queues_ours, 0, "queue pairs in use")
    status = Path("/proc/self/status").read_text()
    guest.check("VmLck:\t       0 kB" in status, "nothing stays charged to the process")
    guest.equal(p2p.unload(), 0, "the module unloads")


@case()
def limits_hold(guest: Guest) -> None:
    """Limits of a user and RLIMIT_MEMLOCK stop a process that may not exceed them; root's own do not."""
    p2p.load(f"sim={GPU_BDF} max_pins=3 require_admin=0")
    Path(p2p.NODE).chmod(0o666)
    name = p2p.controller_name(0)
    Path(f"/dev/{name}").chmod(0o666)

    def without_rights() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
        os.setgid(65534)
        os.setuid(65534)
        client = p2p.Client(guest)
        drive = client.attach()
        request, array = client.pin_request(p2p.Memory(2 << 20), [drive.controller])
        client.refuse(request, errno.ENOMEM, "more than RLIMIT_MEMLOCK")
        small = p2p.Memory(p2p.GRANULE)
        request, array = client.pin_request(small, [drive.controller])
        for _ in range(3):
            pin = client.must(request).pin
        client.refuse(request, errno.EDQUOT, "a fourth pin")
        client.must(client.uapi.Unpin(pin=pin))
        request.provider, request.address = int(client.uapi.Provider.SIM), 0
        client.refuse(request, errno.EPERM, "the bar without CAP_SYS_RAWIO")
        del array

    p2p.in_child(guest, without_rights, "a process without rights")
    Path("/sys/module/tutti_p2p/parameters/require_admin").write_text("1")

    def attach_only() -> None:
        os.setuid(65534)
        client = p2p.Client(guest)
        client.refuse(client.attach_request(), errno.EPERM, "attach without CAP_SYS_ADMIN")

    p2p.in_child(guest, attach_only, "a process that may not attach")
    guest.equal(p2p.unload(), 0, "the module unloads")


@case()
def dmabuf_of_host_pages(guest: Guest) -> None:
    """A dma-buf made of host pages is imported, in whole and from an offset, and read into; past its end is refused."""
    if not Path("/dev/udmabuf").exists():
        guest.skip("this kernel has no udmabuf")
    with p2p.client(guest) as client:
        api = client.uapi
        drive = client.attach()
        length = 1 << 20
        memfd = os.memfd_create("data", os.MFD_ALLOW_SEALING)
        os.truncate(memfd, length)
        fcntl.fcntl(memfd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        with Path("/dev/udmabuf").open("rb+", buffering=0) as maker:
            # UDMABUF_CREATE: memfd, flags, offset, size.
            buffer = fcntl.ioctl(maker, 0x40187542, bytearray(struct.pack("<IIQQ", memfd, 1, 0, length)), True)
        content = mmap.mmap(memfd, length)
        rings = client.pin(p2p.Memory(p2p.GRANULE), drive.controller)
        pair = client.queue(drive.controller, rings)
        for offset in (0, 5 * p2p.PAGE):
            request, array = client.pin_request(rings.memory, [drive.controller])
            request.provider, request.fd, request.address = int(api.Provider.DMABUF), buffer, offset
            request.length = length - offset
            pin = client.must(request).pin
            del array
            runs = client.runs(pin, drive.controller)
            guest.equal(sum(run.length for run in runs), length - offset, "bytes of all runs")
            data = p2p.Pinned(pin, rings.memory, runs)
            content[:] = bytes(length)
            guest.equal(pair.read(data, 3 * MIB // 512), 0, "status of a read")
            guest.equal(content[offset : offset + 64], stamp(0, 0, 3), f"bytes at offset {offset}")
            guest.check(not any(content[:offset]), "nothing before it was written")
        request, array = client.pin_request(rings.memory, [drive.controller])
        request.provider, request.fd, request.address = int(api.Provider.DMABUF), buffer, length
        client.refuse(request, errno.EINVAL, "past the end")
        del array
        os.close(buffer)


@case(timeout_s=240.0)
def the_c_example_reads(guest: Guest) -> None:
    """The example in C compiles against the header and reads the first block."""
    folder = Path(__file__).resolve().parents[2]
    if shutil.which("gcc") is None:
        guest.skip("no C compiler")
    p2p.load()
    program = Path("/tmp/read_block")
    words = ["gcc", "-Wall", "-Werror", "-I", str(folder), "-o", str(program), str(folder / "examples/read_block.c")]
    subprocess.run(words, check=True, timeout=200)
    name = f"/dev/{p2p.controller_name(0)}"
    ran = subprocess.run([program, drive_bdf(0), name], capture_output=True, text=True, timeout=30, check=False)
    guest.equal(ran.returncode, 0, f"the example's end: {ran.stdout} {ran.stderr}")
    guest.check(stamp(0, 0, 0)[:16].hex(" ") in ran.stdout, f"the first bytes: {ran.stdout}")
    guest.equal(p2p.unload(), 0, "the module unloads")
