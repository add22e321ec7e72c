"""What a vendor says beforehand that it will not pass: ``conformance.yaml``, a sentence for each clause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tutti_hal.spec import Spec, load_spec
from tutti_hal.spec.nodes import Node, Problems, near_miss, read
from tutti_hal.spec.schema import BAD, Int, ListOf, MapOf, Struct, Text


@dataclass(frozen=True)
class Expectations:
    """Two lists that are never mixed, and what the kernel's log says of a kernel that fails on purpose.

    Attributes:
        unsupported: clause -> why the vendor will never have it. Binding only with the capability declared false.
        expected_failures: clause -> why it fails for now. One that passes is a finding, too.
        failure_log: patterns of lines that the vendor's driver writes to the system's log when a kernel fails.
    """

    unsupported: Mapping[str, str]
    expected_failures: Mapping[str, str]
    failure_log: tuple[str, ...] = ()


def load_expectations(vendor_dir: Path, spec: Spec | None = None) -> Expectations:
    """Read ``vendor_dir``/conformance.yaml. A key is a clause, or a prefix of clauses that ends in ``.*``.

    Raises:
        SpecError: a key names no clause, a clause is in both lists, or the schema is broken; all of it is listed.
    """
    contract = spec or load_spec()
    file = vendor_dir / "conformance.yaml"
    node = read(file)
    problems = Problems()
    sentences = MapOf(Text(pattern=r"(?s).*\.\s*", noun="sentence"))
    schema = Struct(
        {"version": Int(1, 1), "unsupported": sentences, "expected_failures": sentences},
        {"failure_log": ListOf(Text())},
    )
    table = schema.check(node, problems)
    lists: dict[str, dict[str, str]] = {"unsupported": {}, "expected_failures": {}}
    if table is not BAD and node.is_map:
        places = {name: value for name, _, value in node.items(Problems())}
        for name, filled in lists.items():
            if isinstance(table.get(name), dict):
                _expand(table[name], places[name], contract, filled, problems)
        for clause in sorted(set(lists["unsupported"]) & set(lists["expected_failures"])):
            problems.add(places["expected_failures"], f"'{clause}' is unsupported for ever, too")
    problems.raise_if_any(f"load the expectations {file}")
    patterns = tuple(table.get("failure_log", ()))
    return Expectations(MappingProxyType(lists["unsupported"]), MappingProxyType(lists["expected_failures"]), patterns)


def _expand(table: Mapping[str, str], node: Node, contract: Spec, filled: dict[str, str], problems: Problems) -> None:
    keys = {name: key for name, key, _ in node.items(Problems())}
    for name, sentence in table.items():
        prefix = name.removesuffix("*")
        clauses = [c for c in contract.clauses if c.startswith(prefix)] if name.endswith(".*") else [name]
        if not clauses or clauses[0] not in contract.clauses:
            problems.add(keys[name], f"no clause '{name}'{near_miss(name, contract.clauses)}")
            continue
        for clause in clauses:
            if clause in filled:
                problems.add(keys[name], f"'{clause}' is already in this list")
            filled[clause] = " ".join(sentence.split())
