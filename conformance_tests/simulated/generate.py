"""An ABI as C: the tables and exports of its libraries, and its public headers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tutti_hal.conformance_tests.simulated.abi import Abi, Function, Group, Header, Layout, Library

#: Group -> prefix of HOST's names; an operation's own numbers have none.
_HOST = {
    "MemcpyKind": "ttrtMemcpy",
    "StreamFlags": "ttrtStream",
    "EventFlags": "ttrtEvent",
    "HostAllocFlags": "ttrtHostAlloc",
    "HostRegisterFlags": "ttrtHostRegister",
    "MemAttachFlags": "ttrtMemAttach",
    "MemoryType": "ttrtMemoryType",
    "FuncAttribute": "ttrtFuncAttribute",
    "DeviceMallocFlags": "",
    "MemRangeHandleType": "",
    "StreamWriteValue": "",
    "StreamWaitValue": "",
}

#: Groups whose numbers are bits that go together: one without a meaning is taken and changes nothing.
_FLAGS = frozenset({"StreamFlags", "EventFlags", "HostAllocFlags", "HostRegisterFlags"})

#: Operations that are no calls of the runtime: they answer about errors, in the vendor's own numbers.
_PLAIN = frozenset({"GetLastError", "PeekAtLastError", "GetErrorName", "GetErrorString", "DriverGetErrorString"})

#: What a device can be asked, as C over `machine` (its Machine) and `device` (the vendor's ordinal).
_FACTS = {
    "wave": "static_cast<int>(machine.arch->wave)",
    "major": "machine.arch->major",
    "minor": "machine.arch->minor",
    "shared_bytes": "machine.arch->shared_bytes",
    "registers": "machine.arch->registers",
    "pci_domain": "kPciDomain",
    "pci_bus": "kPciBus + device",
    "pci_slot": "0",
}


def tables(abi: Abi) -> str:
    """``tables.inc``: every number of the vendor's beside HOST's."""
    lines = [
        f'constexpr const char *kVendor = "{abi.vendor}";',
        f"constexpr int kSdkNumber = {abi.sdk_number};",
        f"constexpr bool kDriverNeedsInit = {_bool(abi.driver_needs_init)};",
        f"constexpr bool kUnregisteredRefused = {_bool(abi.unregistered_refused)};",
        f"constexpr int kNoDevice = {abi.no_device};",
        f'constexpr const char *kErrorPrefix = "{abi.error_prefix}";',
        f"constexpr int kUnknownError = {abi.unknown_error};",
        f"constexpr int kLeastPriority = {abi.priorities['least']};",
        f"constexpr int kGreatestPriority = {abi.priorities['greatest']};",
        f"constexpr int kDefaultPriority = {abi.priorities['default']};",
        f"constexpr int kPciDomain = {abi.pci['domain']};",
        f"constexpr int kPciBus = {abi.pci['bus']};",
        "constexpr ArchRow kArchs[] = {",
        *(
            f'    {{"{one.name}", "{one.title}", {one.wave}u, {one.major}, {one.minor}, {one.shared_bytes},'
            f" {one.pci_device}, {one.registers}}},"
            for one in abi.archs.values()
        ),
        "};",
        "constexpr ErrorRow kErrors[] = {",
        *(
            f'    {{{f"ttrt{_error(meaning)}" if meaning else "-1"}, {row.value}, "{row.name}"}},'
            for row in abi.errors.rows
            for meaning in (row.means or ("",))
        ),
        "};",
    ]
    for name, prefix in _HOST.items():
        lines += _numbers(name, prefix, abi.numbers.get(name, Group("", ())))
    return "\n".join(lines) + "\n"


def _error(meaning: str | int) -> str:
    return "Success" if meaning == "Success" else f"Error{meaning}"


def _numbers(name: str, prefix: str, group: Group) -> Iterator[str]:
    pairs: list[tuple[int, str | int | None]] = [(row.value, one) for row in group.rows for one in row.means]
    if name in _FLAGS:
        pairs += [(row.value, None) for row in group.rows if not row.means]
    # A group that the vendor lacks keeps one row that nothing matches: an array has at least one.
    yield f"constexpr NumberRow k{name}[] = {{"
    for value, meaning in pairs or [(0xFFFFFFFF, None)]:
        host = "0u" if meaning is None else f"{prefix}{meaning}"
        yield f"    {{{value}u, {host}}},"
    yield "};"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def library(abi: Abi, one: Library) -> str:
    """The translation unit of a generated library."""
    layer = "driver" if abi.driver_needs_init and not one.driver else "runtime"
    defines = []
    if one.driver:
        defines = [f'#define SIM_DRIVER_LIBRARY "{one.driver}"', f'#define SIM_DRIVER_INIT "{one.init}"']
    functions = abi.functions[one.functions]
    parts = [
        *defines,
        '#include "sim.h"',
        *(f'#include "{header.file}"' for header in abi.headers),
        "",
        "namespace sim {",
        "using namespace abi;",
        *_attribute(abi),
        *(line for layout in abi.structs for line in _filler(layout)),
        "} // namespace sim",
        "",
        '#include "operations_device.h"',
        '#include "operations_memory.h"',
        '#include "operations_work.h"',
        "",
        'extern "C" {',
        *(_export(function, layer) for function in functions),
        "}",
    ]
    return "\n".join(parts) + "\n"


def _attribute(abi: Abi) -> Iterator[str]:
    yield "inline ttrtError abi_attribute(int *value, int attribute, int device) {"
    yield "    const Machine &machine = Machine::get();"
    yield "    switch (attribute) {"
    for one in abi.attributes:
        yield f"    case {one.value}: // {one.name}"
        if one.source.startswith("host."):
            name = one.source.removeprefix("host.")
            yield f"        return ttrtDeviceGetAttribute(value, ttrtDevAttr{name}, machine.host(device));"
        else:
            yield f"        *value = {_FACTS.get(one.source, one.source)};"
            yield "        return ttrtSuccess;"
    yield "    default:"
    yield "        return ttrtErrorInvalidValue;"
    yield "    }"
    yield "}"


def _filler(layout: Layout) -> Iterator[str]:
    if layout.role == "PointerAttributes":
        yield "inline void fill_pointer_attributes(void *out, const PointerFacts &facts) {"
        yield f"    std::memset(out, 0, {layout.bytes});"
        for field in layout.fields:
            yield f"    put<{field.type}>(out, {field.offset}, facts.{field.source}); // {field.name}"
        yield "}"
        return
    yield f"inline ttrtError fill_{layout.name}(void *out, int device) {{"
    yield "    const Machine &machine = Machine::get();"
    yield "    if (!machine.has(device) || out == nullptr) {"
    yield "        return out == nullptr ? ttrtErrorInvalidValue : ttrtErrorInvalidDevice;"
    yield "    }"
    yield "    ttrtDeviceProp host{};"
    yield "    const ttrtError error = ttrtGetDeviceProperties(&host, machine.host(device));"
    yield "    if (error != ttrtSuccess) {"
    yield "        return error;"
    yield "    }"
    yield "    int asked = 0;"
    yield "    (void)asked;"
    yield f"    std::memset(out, 0, {layout.bytes});"
    for field in layout.fields:
        yield from _field(field.type, field.offset, field.source, field.name)
    yield "    return ttrtSuccess;"
    yield "}"


def _field(kind: str, offset: int, source: str, name: str) -> Iterator[str]:
    array = re.fullmatch(r"char\[(\d+)\]", kind)
    if array:
        text = "machine.arch->title" if source == "title" else "machine.arch->name"
        yield f"    std::strncpy(static_cast<char *>(out) + {offset}, {text}, {int(array[1]) - 1}); // {name}"
    elif source.startswith("host."):
        attribute = f"ttrtDevAttr{source.removeprefix('host.')}"
        yield f"    ttrtDeviceGetAttribute(&asked, {attribute}, machine.host(device));"
        yield f"    put<{kind}>(out, {offset}, static_cast<{kind}>(asked)); // {name}"
    else:
        value = "host.totalGlobalMem" if source == "memory_bytes" else _FACTS.get(source, source)
        yield f"    put<{kind}>(out, {offset}, static_cast<{kind}>({value})); // {name}"


def _export(function: Function, layer: str) -> str:
    arguments = ", ".join(_names(function.parameters))
    head = f'__attribute__((visibility("default"))) {function.returns} {function.name}({function.parameters})'
    if function.operation in _PLAIN:
        call = f"sim::{function.operation}({arguments})"
    else:
        operation = f"fill_{function.layout}" if function.layout else function.operation
        kind = "before" if function.before_init else layer
        call = f"sim::enter(sim::Layer::{kind}, [&] {{ return sim::{operation}({arguments}); }})"
    if "*" not in function.returns:  # an enum of the vendor's, which takes any number
        call = f"{function.returns}({call})"
    return f"{head} {{ return {call}; }}"


def _names(parameters: str) -> Iterator[str]:
    """The names in a C parameter list; a pointer to a function keeps its own parentheses."""
    if parameters.strip() in ("", "void"):
        return
    depth, part = 0, ""
    for character in f"{parameters},":
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            inner = re.search(r"\(\*(\w+)\)", part)
            yield inner[1] if inner else re.findall(r"\w+", part)[-1]
            part = ""
        else:
            part += character


def header(abi: Abi, one: Header, words: dict[str, str]) -> str:
    """A public header: what a program of the vendor's compiles against."""
    lines = [
        f"/* {abi.title} {abi.sdk}, simulated: transcribed from public sources, see abi.yaml. */",
        f"#ifndef {one.guard}",
        f"#define {one.guard}",
        "",
        "#include <stddef.h>",
        *(f"#include <{name}>" for name in one.include),
        "",
    ]
    for name, value in (one.macros or {}).items():
        lines.append(f"#define {name} {replaced(value, words)}")
    lines += ["", "#ifdef __cplusplus", 'extern "C" {', "#endif", ""]
    if one.types:
        lines += [abi.types[one.types].rstrip(), ""]
    if one.errors:
        lines += _enum(abi.errors)
    if one.attributes:
        rows = [f"    {each.name} = {each.value}," for each in abi.attributes]
        lines += [f"typedef enum {abi.attribute_type} {{", *rows, f"}} {abi.attribute_type};", ""]
    for name in one.numbers:
        group = abi.numbers[name]
        lines += _enum(group) if group.type else [f"#define {row.name} {row.value:#x}" for row in group.rows]
        lines.append("")
    if one.structs:
        for layout in abi.structs:
            lines += _struct(layout)
    for function in abi.functions[one.functions] if one.functions else ():
        lines.append(f"{function.returns} {function.name}({function.parameters});")
    lines += ["", "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


def _enum(group: Group) -> list[str]:
    rows = [f"    {row.name} = {row.value}," for row in group.rows] or [f"    {group.type}_none = 0,"]
    return [f"typedef enum {group.type} {{", *rows, f"}} {group.type};", ""]


def _struct(layout: Layout) -> Iterator[str]:
    sizes = {"int": 4, "unsigned int": 4, "size_t": 8, "void *": 8}
    yield f"struct {layout.name} {{"
    at = 0
    for field in layout.fields:
        if field.offset > at:
            yield f"    char other_{at}[{field.offset - at}];"
        array = re.fullmatch(r"char\[(\d+)\]", field.type)
        yield f"    char {field.name}[{array[1]}];" if array else f"    {field.type} {field.name};"
        at = field.offset + (int(array[1]) if array else sizes[field.type])
    if at < layout.bytes:
        yield f"    char other_{at}[{layout.bytes - at}];"
    yield "};"
    if layout.typedef:
        yield f"typedef struct {layout.name} {layout.typedef};"
    yield ""


def words(abi: Abi, python: str, root: str) -> dict[str, str]:
    """What the words of a ``.in`` file stand for."""
    major, minor, patch = abi.sdk.split(".")
    return {
        "PYTHON": python,
        "ROOT": root,
        "SDK": abi.sdk,
        "SDK_MAJOR": major,
        "SDK_MINOR": minor,
        "SDK_PATCH": patch,
        "SDK_NUMBER": str(abi.sdk_number),
    }


def replaced(text: str, known: dict[str, str]) -> str:
    """The text with ``@WORD@`` replaced, for each known word."""
    return re.sub(r"@([A-Z_]+)@", lambda found: known.get(found[1], found[0]), text)
