"""All cases of the suite: found, cross-checked with the contract, selected, and listed."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType

from tutti_hal.conformance_tests.case import Case, Instance, Per
from tutti_hal.conformance_tests.errors import CasesInvalid, CaseUnknown
from tutti_hal.conformance_tests.seen import Facts
from tutti_hal.spec import Spec, load_spec
from tutti_hal.spec.nodes import near_miss
from tutti_hal.spec.tables import LEVELS


@dataclass(frozen=True)
class Catalogue:
    """The cases of a run, in order of level and name."""

    cases: tuple[Case, ...]

    def instances(self, facts: Mapping[str, Facts]) -> tuple[Instance, ...]:
        """Every instance for these archs (arch -> facts; ``""`` is the vendor as a whole), in order."""
        found = []
        for case in self.cases:
            archs = [""] if case.per is Per.VENDOR else [arch for arch in facts if arch]
            for arch in archs:
                for one in case.instances():
                    if case.only is None or case.only(one.axes, facts[arch]):
                        found.append(Instance(case, one.axes, arch))
        return tuple(found)

    def clauses(self) -> dict[str, list[Case]]:
        """Clause -> the cases that claim it."""
        found: dict[str, list[Case]] = {}
        for case in self.cases:
            for clause in case.clauses:
                found.setdefault(clause, []).append(case)
        return found


def select(instances: Iterable[Instance], globs: Sequence[str]) -> tuple[Instance, ...]:
    """The instances whose id, or whose id without the arch, or whose case name, matches one of the globs.

    Raises:
        CaseUnknown: a glob matches nothing; the near miss is named.
    """
    everything = tuple(instances)
    chosen: dict[str, Instance] = {}
    for glob in globs:
        hits = [one for one in everything if matches(one, glob)]
        if not hits:
            names = {one.case.name for one in everything} | {one.id for one in everything}
            names |= {f"{one.case.name.partition('/')[0]}/*" for one in everything}
            raise CaseUnknown(
                f"select the case '{glob}'",
                f"no case of this run matches it{near_miss(glob, names)}",
                "List them: tutti-hal certify --list. Quote globs: --case 'prim/*'.",
            )
        chosen |= {one.id: one for one in hits}
    return tuple(one for one in everything if one.id in chosen)


def matches(instance: Instance, glob: str) -> bool:
    """Whether a glob names an instance: by its id, its id without the arch, or its case."""
    bare = Instance(instance.case, instance.axes).id
    return any(fnmatchcase(text, glob) for text in (instance.id, bare, instance.case.name))


@functools.cache
def catalogue(extra: tuple[str, ...] = ()) -> Catalogue:
    """The suite's own cases and those in ``extra`` (Python files, or folders of ``case_*.py``).

    Raises:
        CasesInvalid: a module does not load, or a case contradicts the contract or another case; all of it is listed.
    """
    from tutti_hal.conformance_tests import cases as own

    modules = [
        importlib.import_module(info.name)
        for info in pkgutil.walk_packages(own.__path__, f"{own.__name__}.")
        if not info.ispkg
    ]
    modules += [_load(path) for name in extra for path in _files(Path(name))]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Case)]
    unique = list({id(case): case for case in found}.values())
    problems = _problems(unique, load_spec())
    if problems:
        raise CasesInvalid("load the cases", "\n  ".join(["these are wrong:", *problems]), "Mend them.")
    return Catalogue(tuple(sorted(unique, key=lambda case: (LEVELS.index(case.level), case.name))))


def cases_of(module: str, file: Path) -> tuple[Case, ...]:
    """The cases of one module, unchecked: ``module`` where it is one of the suite's own, else the Python file.

    Raises:
        CasesInvalid: it does not load.
    """
    own = module.startswith(f"{__package__}.cases.")
    found = importlib.import_module(module) if own else _load(file)
    return tuple(value for value in vars(found).values() if isinstance(value, Case))


def _files(path: Path) -> list[Path]:
    found = sorted(path.glob("case_*.py")) if path.is_dir() else [path]
    if not found or not all(one.is_file() for one in found):
        raise CasesInvalid(f"load cases from {path}", "there is no such file, or no case_*.py in it", "Name another.")
    return found


def _load(path: Path) -> ModuleType:
    name = f"tutti_cases_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise CasesInvalid(f"load cases from {path}", "it is not a Python file", "Name a .py file.")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        raise CasesInvalid(f"load cases from {path}", f"{type(error).__name__}: {error}", "Mend the file.") from error
    return module


def _problems(cases: Sequence[Case], spec: Spec) -> list[str]:
    found = []
    names: dict[str, Case] = {}
    for case in cases:
        at = f"{case.source}: case {case.name}"
        if case.name in names:
            found.append(f"{at}: the name is taken by {names[case.name].source}")
        names[case.name] = case
        if case.level not in LEVELS:
            found.append(f"{at}: no level '{case.level}'{near_miss(case.level, LEVELS)}")
            continue
        unknown = [clause for clause in case.clauses if clause not in spec.clauses]
        found += [f"{at}: no clause '{clause}'{near_miss(clause, spec.clauses)}" for clause in unknown]
        if not unknown:
            top = max(LEVELS.index(spec.clauses[clause].level) for clause in case.clauses)
            if LEVELS[top] != case.level:
                found.append(f"{at}: its level is {case.level}, that of its clauses {LEVELS[top]}")
        for need in case.needs:
            if need not in spec.capabilities:
                found.append(f"{at}: no capability '{need}'{near_miss(need, spec.capabilities)}")
        found += [f"{at}: {problem}" for problem in _wrong_calls(case, spec)]
        for glob in case.primitives:
            if not any(fnmatchcase(primitive, glob) for primitive in spec.primitives):
                found.append(f"{at}: no primitive '{glob}'{near_miss(glob, spec.primitives)}")
        if case.judged is None:
            found.append(f"{at}: it has no judge")
    return found


def _wrong_calls(case: Case, spec: Spec) -> list[str]:
    found = []
    for call in case.calls:
        name, _, error = call.partition(":")
        function = spec.host_functions.get(name)
        if function is None:
            found.append(f"no host function '{name}'{near_miss(name, spec.host_functions)}")
        elif error and error not in function.errors:
            found.append(f"{name} has no error '{error}'{near_miss(error, function.errors)}")
    return found
