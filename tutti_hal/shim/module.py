"""Compiled modules and their kernels."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tutti_hal.errors import InvalidArgument, ModuleInvalid, WrongDevice
from tutti_hal.shim.buffer import Buffer, BufferSlice
from tutti_hal.shim.resource import Resource

if TYPE_CHECKING:
    from tutti_hal.shim.device import Device

_UNSIGNED = {1: "<B", 2: "<H", 4: "<I", 8: "<Q"}
_SIGNED = {1: "<b", 2: "<h", 4: "<i", 8: "<q"}
_FLOAT = {4: "<f", 8: "<d"}


@dataclass(frozen=True)
class Parameter:
    """A kernel's parameter: its name (empty where unknown) and its size in bytes."""

    name: str
    nbytes: int


class Module(Resource):
    """A compiled module on one device; ``module["name"]`` is a kernel. Closing waits for the device's work."""

    _noun = "module"

    def __init__(
        self, device: Device, handle: Any, path: Path, declared: Mapping[str, tuple[Parameter, ...]] | None
    ) -> None:
        super().__init__(device)
        self.handle = handle
        self.path = path
        self._declared = dict(declared or {})
        self._kernels: dict[str, Kernel] = {}

    def _release(self) -> None:
        with self.device.current():
            self.device.call("ModuleUnload", self.handle)

    def __getitem__(self, name: str) -> Kernel:
        """The kernel of that name.

        Raises:
            ModuleInvalid: the module has none.
            UseAfterFree: the module is closed.
        """
        self.check_open(f"find the kernel {name}")
        kernel = self._kernels.get(name)
        if kernel is None:
            handle = self.device.runtime.ffi.new("Function *")
            with self.device.current():
                self.device.call("ModuleGetFunction", handle, self.handle, name.encode())
            kernel = Kernel(self, name, handle[0], self._parameters(name, handle[0]))
            self._kernels[name] = kernel
        return kernel

    def __iter__(self) -> Iterator[str]:
        """The names of its kernels.

        Raises:
            NotSupported: the vendor cannot list them (``module.introspection``).
        """
        self.check_open("list the kernels of a module")
        runtime = self.device.runtime
        runtime.require("module.introspection", "list the kernels of a module")
        count = runtime.ffi.new("unsigned int *")
        self.device.call("ModuleGetFunctionCount", count, self.handle)
        handles = runtime.ffi.new("Function[]", max(1, count[0]))
        self.device.call("ModuleEnumerateFunctions", handles, count[0], self.handle)
        text = runtime.ffi.new("const char **")
        for index in range(count[0]):
            self.device.call("FuncGetName", text, handles[index])
            yield bytes(runtime.ffi.string(text[0])).decode()

    def _parameters(self, name: str, handle: Any) -> tuple[Parameter, ...] | None:
        runtime = self.device.runtime
        if not runtime.capable("module.introspection"):
            return self._declared.get(name)
        offset, size = runtime.ffi.new("size_t *"), runtime.ffi.new("size_t *")
        told: list[Parameter] = []
        while self.device.code("FuncGetParamInfo", handle, len(told), offset, size) == 0:
            told.append(Parameter(self._parameter_name(handle, len(told)), int(size[0])))
        declared = self._declared.get(name)
        if declared is not None and [p.nbytes for p in declared] != [p.nbytes for p in told]:
            raise ModuleInvalid(
                f"load the kernel {name} from {self.path}",
                f"it takes {_sizes(told)}, the declaration says {_sizes(declared)}",
                "Build the module from the sources of this package.",
            )
        return tuple(told)

    def _parameter_name(self, handle: Any, index: int) -> str:
        runtime = self.device.runtime
        if not runtime.capable("module.parameter_names"):
            return ""
        text = runtime.ffi.new("const char **")
        if self.device.code("FuncGetParamName", handle, index, text) != 0:
            return ""
        return bytes(runtime.ffi.string(text[0])).decode()


def _sizes(parameters: tuple[Parameter, ...] | list[Parameter]) -> str:
    return "(" + ", ".join(str(p.nbytes) for p in parameters) + ") bytes"


class Kernel:
    """A kernel of a module; lives as long as the module."""

    def __init__(self, module: Module, name: str, handle: Any, parameters: tuple[Parameter, ...] | None) -> None:
        self.module = module
        self.name = name
        self.handle = handle
        #: The parameters in order; None where neither the vendor nor a declaration tells them.
        self.parameters = parameters

    @property
    def max_block_threads(self) -> int:
        """The largest block that it can be launched with.

        Raises:
            UseAfterFree: its module is closed.
        """
        self.module.check_open(f"ask for an attribute of {self.name}")
        device = self.module.device
        value = device.runtime.ffi.new("int *")
        number = device.runtime.constant("FuncAttribute", "MaxThreadsPerBlock")
        device.call("FuncGetAttribute", value, number, self.handle)
        return int(value[0])

    def resident_blocks(self, block_threads: int, shared_bytes: int = 0) -> int:
        """How many of its blocks are resident together on one multiprocessor.

        Raises:
            NotSupported: the vendor does not tell (``launch.occupancy``).
            UseAfterFree: its module is closed.
        """
        self.module.check_open(f"ask for the occupancy of {self.name}")
        device = self.module.device
        device.runtime.require("launch.occupancy", f"ask for the occupancy of {self.name}")
        value = device.runtime.ffi.new("int *")
        name = "OccupancyMaxActiveBlocksPerMultiprocessor"
        device.call(name, value, self.handle, block_threads, shared_bytes)
        return int(value[0])

    def pack(self, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """The pointers to the arguments, and what must live until the launch call returns.

        A buffer becomes its device address; an int fits its parameter signed or unsigned; a float has 4 or 8 bytes;
        a NumPy scalar, a ctypes value or bytes must have exactly the parameter's size.

        Raises:
            InvalidArgument: number or size of the arguments is not the kernel's, or a value does not fit.
            WrongDevice: a buffer belongs to another device.
            UseAfterFree: a buffer is closed.
        """
        parameters = self.parameters
        if parameters is None:
            parameters = tuple(Parameter("", _natural_size(self.name, i, arg)) for i, arg in enumerate(args))
        if len(args) != len(parameters):
            names = ", ".join(p.name or f"#{i}" for i, p in enumerate(parameters))
            raise InvalidArgument(
                f"launch {self.name}",
                f"{len(args)} arguments for {len(parameters)} parameters ({names})",
                "Pass one argument for each parameter.",
            )
        ffi = self.module.device.runtime.ffi
        data = bytearray()
        offsets = []
        for index, (parameter, arg) in enumerate(zip(parameters, args, strict=True)):
            offsets.append(len(data))
            data += self._bytes(index, parameter, arg).ljust(-(-parameter.nbytes // 8) * 8, b"\0")
        storage = ffi.from_buffer(data)
        return [storage + offset for offset in offsets] or ffi.NULL, storage

    def _bytes(self, index: int, parameter: Parameter, arg: Any) -> bytes:
        size = parameter.nbytes
        if isinstance(arg, Buffer | BufferSlice):
            buffer = arg if isinstance(arg, Buffer) else arg.buffer
            if buffer.device != self.module.device:
                raise WrongDevice(
                    f"launch {self.name}",
                    f"argument {index} ({parameter.name}) is memory of {buffer.device}, "
                    f"the kernel is on {self.module.device}",
                    "Pass memory of the kernel's device.",
                )
            arg = arg.address
        raw = _encode(arg, size)
        if raw is None or len(raw) != size:
            given = f"{arg!r} ({type(arg).__name__}" + (f", {len(raw)} bytes)" if raw is not None else ")")
            raise InvalidArgument(
                f"launch {self.name}",
                f"argument {index} ({parameter.name or 'unnamed'}) has {size} bytes, {given} does not fit",
                "Pass a value of the parameter's size.",
            )
        return raw


def _encode(arg: Any, size: int) -> bytes | None:
    """The little-endian bytes of a value for a parameter of that size; None where it cannot be one."""
    try:
        if arg is None:
            return bytes(8)
        if isinstance(arg, int):
            return struct.pack((_SIGNED if arg < 0 else _UNSIGNED)[size], arg)
        if isinstance(arg, float) and type(arg) is float:
            return struct.pack(_FLOAT[size], arg)
        if hasattr(arg, "tobytes") and getattr(arg, "shape", None) == ():
            return bytes(arg.tobytes())
        return bytes(memoryview(arg).cast("B"))
    except (KeyError, struct.error, TypeError, ValueError):
        return None


def _natural_size(kernel: str, index: int, arg: Any) -> int:
    """The size that an argument has of itself, where nobody tells the parameter's."""
    if isinstance(arg, Buffer | BufferSlice) or arg is None:
        return 8
    if type(arg) in (int, float, bool):
        raise InvalidArgument(
            f"launch {kernel}",
            f"argument {index} is a plain {type(arg).__name__}, and the size of the parameter is not known",
            "Pass a NumPy scalar, or load the module with its kernels' declarations.",
        )
    return len(_encode(arg, 0) or b"")
