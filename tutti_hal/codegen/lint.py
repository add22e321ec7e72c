"""The lint of kernel templates: nothing but primitives.

It reads the template, not the rendered text, so that a finding names the line that a person will edit. The layer
templates are exempt: they are where a record's raw text belongs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

#: Raw words that have a primitive or a macro to stand for them: word -> what to use instead.
_INSTEAD: dict[str, str] = {
    "threadIdx": "tt_thread_index_x/y/z()",
    "blockIdx": "tt_block_index_x/y/z()",
    "blockDim": "tt_block_size_x/y/z()",
    "gridDim": "tt_grid_size_x/y/z()",
    "warpSize": "TT_WAVE_WIDTH",
    "atomicAdd": "tt_atomic_add_{dev,sys}_u{32,64}",
    "atomicCAS": "tt_atomic_cas_{dev,sys}_u{32,64}",
    "atomicExch": "tt_atomic_exchange_{dev,sys}_u{32,64}",
    "atomicOr": "tt_atomic_or_{dev,sys}_u{32,64}",
    "__global__": '{% call kernel("name", [...]) %}',
    "__device__": "TT_DEVICE",
    "__host__": "TT_DEVICE",
    "__forceinline__": "TT_INLINE",
    "__inline__": "TT_INLINE",
    "__shared__": "TT_SHARED(type, name, count)",
    "__constant__": "a kernel parameter",
    "__restrict__": "TT_RESTRICT",
    "__launch_bounds__": "max_threads= of the kernel call",
    "__syncthreads": "tt_block_barrier()",
    "__syncwarp": "tt_wave_sync() or tt_wave_sync_mask(mask)",
    "__activemask": "tt_wave_active()",
    "__ballot_sync": "tt_wave_ballot(mask, predicate)",
    "__ballot": "tt_wave_ballot(mask, predicate)",
    "__shfl_sync": "tt_wave_shuffle_u32/u64(mask, value, lane)",
    "__shfl": "tt_wave_shuffle_u32/u64(mask, value, lane)",
    "__popc": "tt_mask_popcount(mask)",
    "__popcll": "tt_mask_popcount(mask)",
    "__ffs": "tt_mask_first(mask)",
    "__ffsll": "tt_mask_first(mask)",
    "__threadfence": "tt_fence_device()",
    "__threadfence_block": "tt_fence_block()",
    "__threadfence_system": "tt_fence_system()",
    "__nanosleep": "tt_sleep_ns(ns)",
    "__trap": "tt_trap()",
    "__ldg": "a plain read of memory that nobody writes, or tt_load_*",
    "asm": "a primitive; a new one belongs in the record",
    "__asm__": "a primitive; a new one belongs in the record",
    "volatile": "a tt_word32/tt_word64 and tt_load_*/tt_store_*",
    "clock": "tt_clock_ns()",
    "clock64": "tt_clock_ns()",
    "wall_clock64": "tt_clock_ns()",
    "printf": "TT_PRINT(format, ...)",
    "assert": "tt_trap() behind a condition",
    "abort": "tt_trap()",
    "new": "TT_SHARED, or memory that the host allocates",
    "delete": "TT_SHARED, or memory that the host allocates",
    "malloc": "TT_SHARED, or memory that the host allocates",
    "free": "TT_SHARED, or memory that the host allocates",
    "memcpy": "tt_load_*/tt_store_*: a library copies words that others see as it likes",
    "memmove": "tt_load_*/tt_store_*: a library copies words that others see as it likes",
    "memset": "tt_store_*: a library writes words that others see as it likes",
    "goto": "a loop or an early return",
    "setjmp": "an early return",
    "longjmp": "an early return",
    "throw": "a status word",
    "try": "a status word",
    "virtual": "a plain function",
    "dynamic_cast": "a plain function",
    "typeid": "a plain function",
    "reinterpret_cast": "tt_address_as<type>(address)",
    "const_cast": "a parameter of the right type",
    "thread_local": "a local variable",
    "extern": "a kernel parameter; kernels are exported by the kernel call",
    "union": "tt_* conversions by shifts and masks",
    "tt_raw": "tt_load_*/tt_store_*/tt_atomic_*: only lowerings may reach into a word",
    "bits_": "tt_load_*/tt_store_*: the member of a word is private",
    "sleep": "tt_sleep_ns(ns)",
    "usleep": "tt_sleep_ns(ns)",
    "nanosleep": "tt_sleep_ns(ns)",
    "warp": "the word *wave*",
}

#: Families of raw names, tried in order after the exact words.
_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"atomic[A-Z]\w*", "tt_atomic_{add,exchange,or,cas}_{dev,sys}_u{32,64}"),
    (r"__\w+", "a primitive of tutti_hal/spec/primitives.yaml: names with two underscores are the compiler's"),
    (r"tt_host_\w+", "the tt_ primitive: tt_host_ names exist on one profile only"),
    (r"[a-z]+[A-Z]\w*", "a primitive, or snake_case: names with humps are some vendor's"),
)

#: Text patterns that are not single words: (rule, pattern, what to use instead).
_PATTERNS: tuple[tuple[str, re.Pattern[str], str], ...] = (
    (
        "pointer-cast",
        re.compile(r"\(\s*(?:const\s+)?(?:struct\s+)?[A-Za-z_]\w*(?:\s+const)?\s*\*+\s*\)\s*(?=[A-Za-z_&(])"),
        "tt_address_as<type>(address): a cast would open a word to plain access",
    ),
    ("pointer-cast", re.compile(r"\bstatic_cast\s*<[^<>;]*\*\s*>"), "tt_address_as<type>(address)"),
    (
        "include",
        re.compile(r"^[ \t]*#[ \t]*include\b", re.M),
        '{% include "kernels/..." %}: the layers are included for you',
    ),
    ("pragma", re.compile(r"^[ \t]*#[ \t]*pragma\b", re.M), "nothing: pragmas differ between compilers"),
    ("launch", re.compile(r"<<<"), "a launch by the host half"),
)

_QUALIFIED = re.compile(r"\b([A-Za-z_]\w*)\s*::")
_DECLARED = re.compile(r"\b(?:struct|class|enum|enum class|namespace)\s+([A-Za-z_]\w*)\s*[{:]")
_WORD = re.compile(r"[A-Za-z_]\w*")
#: A word that Jinja continues: ``tt_word{{ bits }}``, ``"tt_word" ~ bits``, and the same from the other side.
_JOINED_AFTER = re.compile(r"\{\{|\"\s*~")
_JOINED_BEFORE = re.compile(r"(?:\}\}|~\s*\")$")
_OURS = re.compile(r"^(?:tt_[a-z]|TT_[A-Z])")
#: A read that another agent may change: what makes a loop a spin.
_SHARED_READ = re.compile(r"\btt_(?:load|atomic|mmio_load)\w*\s*\(")
_YIELD = re.compile(r"\b(?:tt_pause|tt_sleep_ns|tt_clock_ns|tt_block_barrier)\s*\(")
#: The one allowance: on the loop's line or the one above it, with a reason.
_ALLOW_SPIN = re.compile(r"tt-lint:\s*spin\b[^\n]*\bbecause\s+\S+")


@dataclass(frozen=True)
class Finding:
    """One line of one template that may not stay."""

    template: str
    line: int
    rule: str
    found: str
    instead: str

    def __str__(self) -> str:
        return f"{self.template}:{self.line}: {self.found} ({self.rule}): use {self.instead}"


def code_only(text: str) -> str:
    """The template with comments and C strings blanked, line breaks kept; what Jinja evaluates stays as it is."""
    pattern = re.compile(
        r"(?P<jinja_comment>\{#.*?#\})|(?P<jinja>\{\{.*?\}\}|\{%.*?%\})"
        r"|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')",
        re.S,
    )

    def blank(match: re.Match[str]) -> str:
        if match["jinja"] is not None:
            return match[0]
        return re.sub(r"[^\n]", " ", match[0])

    return pattern.sub(blank, text)


def lint(template: str, text: str, *, names: Collection[str] | None = None) -> list[Finding]:
    """Every finding in one kernel template, in the order of its lines.

    Args:
        template: the name to print.
        text: the template as it is on disk, not rendered.
        names: the ``tt_`` and ``TT_`` names that exist; when given, any other is a finding with its near miss.
    """
    code = code_only(text)
    findings: list[Finding] = []

    def add(position: int, rule: str, found: str, instead: str) -> None:
        findings.append(Finding(template, code.count("\n", 0, position) + 1, rule, found, instead))

    local = set(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", code, re.M))
    for match in _WORD.finditer(code):
        word = match[0]
        if word in _INSTEAD:
            add(match.start(), "raw-word", word, _INSTEAD[word])
            continue
        for family, instead in _FAMILIES:
            if re.fullmatch(family, word):
                add(match.start(), "raw-word", word, instead)
                break
        else:
            # A name put together by Jinja is judged by the compiler.
            composed = _JOINED_AFTER.match(code, match.end()) or _JOINED_BEFORE.search(code[: match.start()])
            unknown = names is not None and _OURS.match(word) and word not in names and word not in local
            if names is not None and unknown and not composed:
                near = get_close_matches(word, sorted(names), n=1, cutoff=0.6)
                add(match.start(), "unknown-name", word, near[0] if near else "a name of cuda_like.h")
    declared = set(_DECLARED.findall(code))
    for match in _QUALIFIED.finditer(code):
        if match[1] not in declared:
            add(match.start(), "library", f"{match[1]}::", "primitives: no library runs on every device")
    for rule, pattern, instead in _PATTERNS:
        for match in pattern.finditer(code):
            add(match.start(), rule, " ".join(match[0].split()), instead)
    findings.extend(_misplaced_shared(template, code))
    findings.extend(_spins(template, text, code))
    return sorted(findings, key=lambda found: (found.line, found.rule, found.found))


def lint_all(sources: Iterable[tuple[str, str]], *, names: Collection[str] | None = None) -> list[Finding]:
    """The findings of several templates, given as (name, text)."""
    return [finding for name, text in sources for finding in lint(name, text, names=names)]


def _misplaced_shared(template: str, code: str) -> list[Finding]:
    """Block storage must be declared in a kernel's body, at its outermost level: one place, once for a block."""
    findings = []
    for match in re.finditer(r"\bTT_SHARED\s*\(", code):
        before = code[: match.start()]
        opened = [m.end() for m in re.finditer(r"\{%-?\s*call\b.*?%\}", before, re.S)]
        closed = [m.end() for m in re.finditer(r"\{%-?\s*endcall\b.*?%\}", before, re.S)]
        if len(opened) == len(closed):
            instead = "a TT_SHARED at the top of the kernel, passed on as a pointer"
            findings.append(Finding(template, before.count("\n") + 1, "shared", "TT_SHARED outside a kernel", instead))
            continue
        body = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "", before[opened[-1] :], flags=re.S)
        if body.count("{") != body.count("}"):
            instead = "a TT_SHARED at the outermost level of the kernel's body"
            findings.append(Finding(template, before.count("\n") + 1, "shared", "TT_SHARED in an inner block", instead))
    return findings


def _closing(code: str, start: int, opening: str, closing: str) -> int:
    """The index just behind the bracket that closes the one at ``start``; the end of the text when none does."""
    depth = 0
    for index in range(start, len(code)):
        if code[index] == opening:
            depth += 1
        elif code[index] == closing:
            depth -= 1
            if depth == 0:
                return index + 1
    return len(code)


def _statement_end(code: str, start: int) -> int:
    """The end of the statement that begins at ``start``: a block, or text up to its semicolon."""
    while start < len(code) and code[start].isspace():
        start += 1
    if start < len(code) and code[start] == "{":
        return _closing(code, start, "{", "}")
    depth = 0
    for index in range(start, len(code)):
        depth += (code[index] == "(") - (code[index] == ")")
        if code[index] == ";" and depth == 0:
            return index + 1
    return len(code)


def _loops(code: str) -> Iterable[tuple[int, str, str]]:
    """(position, condition, body) of each while, do and for. The condition of an endless loop is empty."""
    claimed: set[int] = set()
    for match in re.finditer(r"\bdo\b", code):
        end = _statement_end(code, match.end())
        tail = re.match(r"\s*while\s*\(", code[end:])
        if tail:
            opening = end + tail.end() - 1
            claimed.add(end + tail.end() - len(tail[0].lstrip()))
            close = _closing(code, opening, "(", ")")
            yield match.start(), code[opening + 1 : close - 1], code[match.end() : end]
    for match in re.finditer(r"\b(while|for)\s*\(", code):
        if match.start() in claimed:
            continue
        close = _closing(code, match.end() - 1, "(", ")")
        head = code[match.end() : close - 1]
        if match[1] == "for":
            parts = head.split(";")
            head = parts[1] if len(parts) == 3 else "ranged"
        yield match.start(), head.strip(), code[close : _statement_end(code, close)]


def _spins(template: str, text: str, code: str) -> list[Finding]:
    """Loops that wait for another agent and never let it run."""
    findings = []
    lines = text.split("\n")
    # Jinja's own braces are not C's.
    plain = re.sub(r"\{\{.*?\}\}|\{%.*?%\}", lambda match: re.sub(r"[^\n]", " ", match[0]), code, flags=re.S)
    for position, condition, body in _loops(plain):
        endless = condition in ("", "true", "1")
        waits = _SHARED_READ.search(condition) or (endless and _SHARED_READ.search(body))
        if not waits or _YIELD.search(condition + body):
            continue
        line = plain.count("\n", 0, position) + 1
        if any(_ALLOW_SPIN.search(near) for near in lines[max(line - 2, 0) : line]):
            continue
        instead = "tt_pause() or tt_sleep_ns(ns) in the loop, or say above it `// tt-lint: spin, because ...`"
        findings.append(Finding(template, line, "spin", "a loop that waits and never yields", instead))
    return findings
