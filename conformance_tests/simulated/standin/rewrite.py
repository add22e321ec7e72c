"""From preprocessed source of a vendor's language to a HOST module: kernels, storage of a block, the module's table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tutti_hal.conformance_tests.simulated.standin.dialects import Dialect
from tutti_hal.conformance_tests.simulated.standin.options import Refused

_MARKER = re.compile(r'^# (?P<line>\d+) "(?P<file>(?:[^"\\]|\\.)*)"(?P<flags>[ \d]*)$', re.MULTILINE)
_GLOBAL = re.compile(r"__sim_global__\b|__attribute__\(\(\s*global\s*\)\)")
_SHARED = re.compile(r"(?P<extern>\bextern\s+)?(?:\bstatic\s+)?(?:__sim_shared__\b|__attribute__\(\(\s*shared\s*\)\))")
_BOUNDS = re.compile(
    r"__sim_bounds__\(\s*(\d+)[uU]?\s*(?:,[^()]*)?\)"
    r"|__attribute__\(\(\s*amdgpu_flat_work_group_size\(\s*\w+\s*,\s*(\d+)\w*\s*\)\s*\)\)"
)
_PLACES = re.compile(r"__attribute__\(\(\s*(?:device|host|constant|convergent|address_space\(\d+\))\s*\)\)")
_ASM = re.compile(r"\b(?:__asm__|asm)\b\s*(?:volatile|__volatile__)?\s*\(")
_DECLARATION = re.compile(r"\s*(?P<type>[^;={}]*?[\w>*&])\s*\b(?P<name>[A-Za-z_]\w*)\s*(?P<dims>(?:\[[^\];]*\]\s*)*);")


@dataclass(frozen=True)
class Kernel:
    """A kernel that was found: its name, its launch bound (0: none), the names of its parameters."""

    name: str
    bound: int
    parameters: tuple[str, ...]


def own_parts(text: str, foreign: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    """The parts of preprocessed text that come from the caller's files: begin, end, file.

    Args:
        text: of ``g++ -E``.
        foreign: folders whose files are the compiler's.
    """
    markers = list(_MARKER.finditer(text))
    for marker, follower in zip(markers, [*markers[1:], None], strict=True):
        file, system = marker["file"], "3" in marker["flags"].split()
        if not system and not file.startswith(("<", *foreign)):
            yield marker.end(), follower.start() if follower else len(text), file


def refuse(dialect: Dialect, sdk: tuple[int, ...], text: str, foreign: tuple[str, ...]) -> None:
    """Raise what the vendor's compiler says of the caller's source.

    Raises:
        Refused: with the line and the reason.
    """
    for begin, end, file in own_parts(text, foreign):
        part = text[begin:end]
        for one in dialect.refusals:
            found = one.pattern.search(part) if one.applies(sdk) else None
            if found:
                raise Refused(f"{_place(text, begin + found.start(), file)}: '{found[0]}': {one.why}")


def _place(text: str, at: int, file: str) -> str:
    marker = list(_MARKER.finditer(text, 0, at))[-1]
    return f"{file}:{int(marker['line']) + text.count(chr(10), marker.end() + 1, at)}"


def module_source(dialect: Dialect, text: str, foreign: tuple[str, ...]) -> str:
    """The text as g++ takes it, with the table by which the engine finds its kernels.

    Raises:
        Refused: a kernel that is a template or has no body here, or assembly that has no meaning here.
    """
    text = _PLACES.sub("", _whole(text))
    text = _assembly(dialect, text, foreign)
    text = _shared(text)
    text, kernels = _kernels(text)
    if not kernels:
        raise Refused("the source has no kernel: nothing to put into a module")
    return f"{text}\n{_table(kernels, hashlib.sha256(text.encode()).hexdigest())}"


def _whole(text: str) -> str:
    """The text without the markers that stand within a declaration, where a macro of a system header was expanded."""
    done, at, last = [], 0, ";"
    for marker in _MARKER.finditer(text):
        between = text[at : marker.start()]
        last = between.rstrip()[-1:] or last
        flags = marker["flags"].split()
        passing = "3" in flags and not {"1", "2"} & set(flags)
        if last in ";}" and not passing:
            done += [between, marker[0]]
            at = marker.end()
        else:  # in the source it was one line
            done.append(between.removesuffix("\n") if between.strip() and last not in ";}" else between)
            at = min(marker.end() + 1, len(text))
    return "".join([*done, text[at:]])


def _assembly(dialect: Dialect, text: str, foreign: tuple[str, ...]) -> str:
    """Instructions that only order become fences of the engine."""
    if dialect.assembly is None:
        return text
    done, at = [], 0
    own = [(begin, end) for begin, end, _ in own_parts(text, foreign)]
    for found in _ASM.finditer(text):
        if found.start() < at or not any(begin <= found.start() < end for begin, end in own):
            continue
        end = _balanced(text, found.end() - 1)
        words = re.match(r'\s*((?:"(?:[^"\\]|\\.)*"\s*)*)', text[found.end() :])
        pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', words[1] if words else "")
        lines = [line.strip() for line in "".join(pieces).replace("\\n", "\n").replace("\\t", " ").split("\n")]
        for line in lines:
            if not dialect.assembly.match(line):
                raise Refused(f"the simulated compiler does not know the instruction '{line}'")
        done += [text[at : found.start()], "sim_fence()" if any(lines) else "static_cast<void>(0)"]
        at = end
    return "".join([*done, text[at:]])


def _balanced(text: str, at: int) -> int:
    """The index behind the bracket that closes the one at ``at``."""
    depth = 0
    for index in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    raise Refused("a bracket is not closed")


def _shared(text: str) -> str:
    done, at = [], 0
    for found in _SHARED.finditer(text):
        declared = _DECLARATION.match(text, found.end())
        if declared is None:
            raise Refused(f"storage of a block that is not understood: {text[found.end() : found.end() + 60].strip()}")
        kind, name, dims = declared["type"], declared["name"], declared["dims"]
        if found["extern"]:
            place = f"[[maybe_unused]] {kind} *const {name} = static_cast<{kind} *>(tt_host_dynamic_shared());"
        else:
            place = (
                f"typedef {kind} sim_type_{name} {dims}; static const char sim_key_{name} = 0; "
                f"[[maybe_unused]] sim_type_{name} &{name} = *static_cast<sim_type_{name} *>("
                f"tt_host_shared(&sim_key_{name}, sizeof(sim_type_{name}), alignof(sim_type_{name})));"
            )
        done += [text[at : found.start()], place]
        at = declared.end()
    return "".join([*done, text[at:]])


def _kernels(text: str) -> tuple[str, list[Kernel]]:
    kernels: list[Kernel] = []
    done, at = [], 0
    for found in _GLOBAL.finditer(text):
        head = text[found.end() :]
        bounds = list(_BOUNDS.finditer(head[: head.find("{") if "{" in head else len(head)]))
        plain = _BOUNDS.sub(lambda one: " " * len(one[0]), head[:4096])
        named = re.match(r"[\s\w*:&]*?\bvoid\s+(\w+)\s*\(", plain)
        before = text[max(at, found.start() - 200) : found.start()]
        if named is None or re.search(r"\btemplate\s*<[^;{}]*$", before):
            raise Refused("a kernel that is a template has no plain name")
        end = _balanced(head, named.end() - 1)
        if re.match(r"\s*\{", head[end:]):
            bound = next((int(one[1] or one[2]) for one in bounds if one.start() < end), 0)
            kernels.append(Kernel(named[1], bound, _parameters(head[named.end() : end - 1])))
        done.append(text[at : found.start()])
        at = found.end()
    return _BOUNDS.sub("", "".join([*done, text[at:]])), kernels


def _parameters(text: str) -> tuple[str, ...]:
    """The names of parameters: the last word of each, or its place where it has none."""
    parts, depth, last = [], 0, 0
    for index, letter in enumerate(text):
        depth += {"<": 1, "(": 1, "[": 1, ">": -1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(text[last:index])
            last = index + 1
    parts.append(text[last:])
    names = []
    for number, part in enumerate(one for one in parts if one.strip() not in ("", "void")):
        words = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^\]]*\]", "", part))
        names.append(words[-1] if len(words) > 1 else f"p{number}")
    return tuple(names)


_TABLE = """
# 1 "(table of the module)"
template <class... A> struct sim_parameters {
    static constexpr uint32_t sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
    template <uint32_t... I> struct sim_at {
        static void call(void (*kernel)(A...), [[maybe_unused]] void **args) {
            kernel(*static_cast<sim_bare<A> *>(args[I])...);
        }
    };
};
template <class... A> sim_parameters<A...> sim_parameters_of(void (*)(A...));
"""


def _table(kernels: list[Kernel], digest: str) -> str:
    lines = ["template <class T> struct sim_bare_of { typedef T type; };"]
    lines += ["template <class T> struct sim_bare_of<const T> { typedef T type; };"]
    lines += ["template <class T> using sim_bare = typename sim_bare_of<T>::type;", _TABLE]
    for one in kernels:
        count = len(one.parameters)
        numbers = ", ".join(str(index) for index in range(count))
        names = ", ".join(json.dumps(name) for name in (*one.parameters, ""))
        lines += [
            f"typedef decltype(sim_parameters_of({one.name})) sim_parameters_{one.name};",
            f"static void sim_entry_{one.name}(void **args) {{",
            f"    sim_parameters_{one.name}::sim_at<{numbers}>::call({one.name}, args);",
            "}",
            f"static const char *const sim_names_{one.name}[] = {{{names}}};",
        ]
    lines.append("static const tt_kernel_desc sim_kernels[] = {")
    lines += [
        f'    {{"{one.name}", sim_entry_{one.name}, {len(one.parameters)}, {one.bound}, '
        f"sim_parameters_{one.name}::sizes, sim_names_{one.name}}},"
        for one in kernels
    ]
    lines += [
        "};",
        f"static const tt_module_desc sim_module = {{1u, 0, SIM_WIDTH, {len(kernels)}, sim_kernels,",
        f'                                          "{digest}"}};',
        'extern "C" __attribute__((visibility("default"))) const tt_module_desc *tt_module_describe(void) '
        "{ return &sim_module; }",
        'extern "C" __attribute__((visibility("default"))) void tt_module_bind(const tt_device_api *api) '
        "{ tt_host_bind(api); }",
        "",
    ]
    return "\n".join(lines)
