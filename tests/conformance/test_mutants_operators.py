"""Operators on small texts: every site is found, and nothing that is no code."""

from __future__ import annotations

import pytest

from tutti_hal.conformance_tests.mutants.mutant import Operator
from tutti_hal.conformance_tests.mutants.operators import applied, sites_of
from tutti_hal.conformance_tests.mutants.tokens import tokens_of

BODY = """\
{{# about tt_fence_device(); #}}
// tt_fence_device();
TT_DEVICE TT_INLINE uint32_t f(const tt_word32 *word, uint32_t n) {{
    {0}
}}
"""


def changes(statement: str, *operators: Operator, groups: tuple[tuple[str, ...], ...] = ()) -> set[str]:
    """The statement in each mutant of these operators."""
    text = BODY.format(statement)
    sites = [site for site in sites_of(text, groups) if not operators or site.operator in operators]
    first = text.rindex(statement)
    return {applied(text, site.edit)[first : -len("\n}\n")] for site in sites}


@pytest.mark.parametrize(
    ("statement", "operator", "wanted"),
    [
        ("tt_fence_system();", Operator.DROP, {";"}),
        ("tt_store_relaxed_sys_u32(word, g(n));", Operator.DROP, {";"}),
        ("if (n) { tt_pause(); }", Operator.DROP, {"if (n) { ; }"}),
        ("const uint32_t x = tt_atomic_add_dev_u32(word, 1);", Operator.DROP, set()),
        ("return g(n);", Operator.DROP, set()),
        ("x = tt_load_acquire_sys_u32(word);", Operator.WEAKEN_ORDER, {"x = tt_load_relaxed_sys_u32(word);"}),
        ("tt_store_release_dev_u64(w, 1);", Operator.WEAKEN_ORDER, {"tt_store_relaxed_dev_u64(w, 1);"}),
        ("x = tt_load_acquire_sys_u32(word);", Operator.WEAKEN_SCOPE, {"x = tt_load_acquire_dev_u32(word);"}),
        ("tt_fence_system();", Operator.WEAKEN_SCOPE, {"tt_fence_device();"}),
        ("tt_fence_device();", Operator.WEAKEN_SCOPE, {"tt_fence_block();"}),
        ("x = y & 0xffu;", Operator.PLUS_ONE, {"x = y & 0x100u;"}),
        ("x = 0;", Operator.MINUS_ONE, set()),
        ("x = 1ull << n;", Operator.MINUS_ONE, {"x = 0ull << n;"}),
        ("x = a + b;", Operator.PLUS_ONE, {"x = a + 1 + b;"}),
        ("x = a - b;", Operator.MINUS_ONE, {"x = a - 1 - b;"}),
        ("x = a - 1;", Operator.PLUS_ONE, {"x = a - 2;"}),
        ("x += a;", Operator.MINUS_ONE, {"x += -1 + a;"}),
        ("x++;", Operator.PLUS_ONE, {"x += 2;"}),
        ("y = x++ % 8;", Operator.MINUS_ONE, {"y = x-- % 8;", "y = x++ % 7;"}),
        ("if (a == b) { return 0; }", Operator.FLIP, {"if (a != b) { return 0; }"}),
        ("x = a < b;", Operator.FLIP, {"x = a <= b;", "x = a >= b;"}),
        ("x = a && b;", Operator.FLIP, {"x = a || b;"}),
        ("if (!a) { return 0; }", Operator.FLIP, {"if (a) { return 0; }"}),
        ("return true;", Operator.FLIP, {"return false;"}),
        ("if (n & 1) { return 0; }", Operator.FLIP, {"if (!(n & 1)) { return 0; }"}),
        ("x = g(n) ? y : z;", Operator.FLIP, {"x = !(g(n)) ? y : z;"}),
    ],
)
def test_an_operator_finds_its_sites(statement: str, operator: Operator, wanted: set[str]) -> None:
    assert changes(statement, operator) == wanted


@pytest.mark.parametrize(
    "statement",
    [
        "// x = a < b && 1;",
        "/* tt_fence_device(); */",
        "{# x = 1; #}",
        "{% if 1 < 2 %}",
        "{{ 1 + 2 }}",
        'TT_PRINT("a < b && 1");',
        "static_assert(sizeof(x) == 4);",
        "return tt_address_as<tt_word32>(a);",
        "const tt_word32 *const p = &q;",
        "[[maybe_unused]] const char *s = nullptr;",
    ],
)
def test_what_is_no_code_is_no_site(statement: str) -> None:
    sites = changes(statement)
    # A print is a call: it may be left out, and its text stays as it is.
    assert sites <= {";"}


def test_preprocessor_lines_are_no_sites_and_guard_what_they_enclose() -> None:
    text = "#if TT_HAS_WAVE_BALLOT\nint f() { return 1; }\n#else\nint g() { return 2; }\n#endif\n#if X < 2\n#endif\n"
    sites = sites_of(text)
    assert {site.token.scope for site in sites} == {"f", "g"}
    assert {site.token.guard for site in sites if site.token.scope == "f"} == {(("WAVE_BALLOT", True),)}
    assert {site.token.guard for site in sites if site.token.scope == "g"} == {(("WAVE_BALLOT", False),)}


def test_constants_of_a_group_are_exchanged_where_they_are_used_and_not_where_they_are_defined() -> None:
    groups = (("RED", "GREEN", "BLUE"),)
    assert changes("x = BLUE;", Operator.SWAP_CONSTANT, groups=groups) == {"x = RED;"}
    assert changes("static constexpr uint32_t RED = 0;", Operator.SWAP_CONSTANT, groups=groups) == set()


def test_a_token_knows_the_function_the_record_or_the_kernel_around_it() -> None:
    text = "struct s {\n    int a;\n};\nint f(int b) { return b; }\n"
    text += '{% call kernel("k", []) %}\nif (c) { d(); }\n{% endcall %}\nint e;\n'
    scopes = {token.text: token.scope for token in tokens_of(text)}
    assert [scopes[name] for name in "abcde"] == ["s", "f", "k", "k", "-"]
