"""Shared words: what reaches them other than by a primitive does not compile."""

from __future__ import annotations

from dataclasses import dataclass

from tutti_hal.conformance_tests.case import Observations, case
from tutti_hal.conformance_tests.cases.l1_generate.workshop import Workshop, complaints
from tutti_hal.conformance_tests.run import Run
from tutti_hal.conformance_tests.seen import Seen


@dataclass(frozen=True)
class _Word:
    """A type of shared memory: the type of its value, and the primitives that move it."""

    value: str
    load: str
    store: str


_WORDS = {
    "tt_word32": _Word("uint32_t", "tt_load_relaxed_dev_u32(p)", "tt_store_relaxed_dev_u32(p, v[0])"),
    "tt_word64": _Word("uint64_t", "tt_load_relaxed_dev_u64(p)", "tt_store_relaxed_dev_u64(p, v[0])"),
    "tt_quad": _Word("tt_u32x4", "tt_load_relaxed_dev_u32x4(p)", "tt_store_relaxed_dev_u32x4(p, v[0])"),
    "tt_mmio32": _Word("uint32_t", "tt_mmio_load_u32(p)", "tt_mmio_store_u32(p, v[0])"),
}

#: What is tried -> (its text; the primitive of the word that does the same, ``load`` or ``store``).
#: Casts are not here: a compiler lets them pass, and the lint refuses them (generate.lint.primitives_only).
_FORMS = {
    "read": ("v[0] = *p;", "load"),
    "write": ("*p = v[0];", "store"),
    "update": ("*p += v[0];", "store"),
    "increment": ("++*p;", "store"),
    "test": ("if (*p) {{ v[0] = v[1]; }}", "load"),
    "copy": ("{word} twin(*p); static_cast<void>(twin);", "load"),
    "copy_const": ("const {word} twin = *q; static_cast<void>(twin);", "load"),
    "assign": ("*p = *q;", "store"),
    "move": ("*p = static_cast<{word} &&>(p[1]);", "store"),
    "pass": ("tt_taken(*p);", "load"),
    "plain_pointer": ("{value} *raw = p; v[0] = *raw;", "load"),
    "member": ("p->bits_ = p[1].bits_;", "store"),
}

#: Text beside the words: a record of words, and storage that is not of words -> the same with words.
_OTHERS = {
    "record_copy": ("tt_pair twin(*r); static_cast<void>(twin);", "tt_store_relaxed_dev_u32(&r->head, 1u);"),
    "record_assign": ("r[0] = r[1];", "tt_store_relaxed_dev_u64(&r->body, tt_load_relaxed_dev_u64(&r[1].body));"),
    "block_storage": (
        "TT_SHARED(uint32_t, plain, 4); plain[0] = 1u;",
        "TT_SHARED(tt_word32, words, 4); tt_store_relaxed_dev_u32(words, 1u);",
    ),
    "address": ("*tt_address_as<uint32_t>(64) = 1u;", "tt_store_relaxed_dev_u32(tt_address_as<tt_word32>(64), 1u);"),
}

_QUIET = "static_cast<void>(p); static_cast<void>(q); static_cast<void>(v);"


def _function(name: str, word: str, body: str) -> str:
    value = _WORDS[word].value
    return f"TT_DEVICE TT_INLINE void {name}({word} *p, const {word} *q, {value} *v) {{ {_QUIET} {body} }}"


def _planted(word: str, *, right: bool) -> list[str]:
    """The lines for one word: wrong ones, or the same with primitives."""
    facts = _WORDS[word]
    lines = [f"TT_DEVICE TT_INLINE void tt_taken({word} one) {{ static_cast<void>(one); }}"]
    for form, (text, primitive) in _FORMS.items():
        done = f"v[0] = {facts.load};" if primitive == "load" else f"{facts.store};"
        body = done if right else text.format(word=word, value=facts.value)
        lines.append(_function(f"tt_case_{form}_{word}", word, body))
    return lines


def _others(*, right: bool) -> list[str]:
    return [
        "struct tt_pair { tt_word32 head; tt_word64 body; };",
        *(
            f"TT_DEVICE TT_INLINE void tt_case_{name}(tt_pair *r) {{ static_cast<void>(r); {pair[right]} }}"
            for name, pair in _OTHERS.items()
        ),
    ]


@case(
    "compile/shared_words",
    level="L1",
    clauses=("prim.shared_word.plain_access_refused",),
    budget_s=120.0,
)
def shared_words(run: Run) -> Observations:
    """Reads, writes, copies and the like of shared words do not compile; the same functions with primitives do."""
    wrong = {word: _planted(word, right=False) for word in _WORDS} | {"others": _others(right=False)}
    right = [line for word in _WORDS for line in _planted(word, right=True)] + _others(right=True)
    return Workshop(run).functions({**wrong, "right": right})


@shared_words.judge
def _(seen: Seen) -> None:
    clause = "prim.shared_word.plain_access_refused"
    seen.holds(clause, "the same functions with primitives compile", seen["right"]["compiled"], seen["right"]["log"])
    for group, names in {**dict.fromkeys(_WORDS, tuple(_FORMS)), "others": tuple(_OTHERS)}.items():
        found = seen[group]
        seen.holds(clause, f"{group}: the unit is refused", not found["compiled"], found["log"])
        for index, name in enumerate(names, 1):
            said = complaints(found, index)
            seen.holds(clause, f"{group}: {name} is refused", said, found["log"])
