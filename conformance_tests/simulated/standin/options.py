"""A compiler's command line, as clang-like drivers read it: what is not known is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tutti_hal.conformance_tests.simulated.standin.dialects import Dialect


class Refused(Exception):
    """The compiler refuses; its text is what it prints behind ``error:``."""


@dataclass
class Options:
    """What was asked for.

    Attributes:
        inputs: the source files.
        output: where to; None for the driver's default.
        archs: the archs named, in order.
        language: the word after ``-x``; empty where none was given.
        preprocessing: ``-D``, ``-U``, ``-I`` and their like, as given.
        warnings: which of the warnings that all compilers know.
        optimise: the level.
        only: ``device``, ``host`` or empty.
        stage: ``link``, ``compile``, ``preprocess``, ``macros`` or ``check``.
        version: whether only the version is asked for.
    """

    inputs: list[Path] = field(default_factory=list)
    output: Path | None = None
    archs: list[str] = field(default_factory=list)
    language: str = ""
    preprocessing: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    optimise: str = "-O1"
    only: str = ""
    stage: str = "link"
    version: bool = False


#: Options that any clang takes, and that change nothing here.
_TAKEN = re.compile(
    r"-(std=(c|gnu)\+\+(11|14|17|1z|20|2a)|g\w*(-\S+)?|W\S*|w|f(?!syntax-only)\S+|m\S+|pthread|pipe|v|shared|s)"
)
_ONLY = {
    **{"--cuda-device-only": "device", "--offload-device-only": "device"},
    **{"--cuda-host-only": "host", "--offload-host-only": "host"},
}
_STAGES = {"-c": "compile", "-S": "compile", "-E": "preprocess", "-fsyntax-only": "check"}
_JOINED = ("-D", "-U", "-I")
_APART = ("-isystem", "-include", "-imacros", "-iquote")


def parse(dialect: Dialect, words: Sequence[str]) -> Options:
    """Read a command line.

    Raises:
        Refused: an option that the driver has not, one without its word, a language or an arch flag without sense.
    """
    found = Options()
    left = list(words)
    while left:
        word = left.pop(0)
        _one(dialect, found, word, left)
    return found


def _one(dialect: Dialect, found: Options, word: str, left: list[str]) -> None:
    name, equals, value = word.partition("=")
    if word in dialect.device_only:
        found.only = "device"
    elif word in _ONLY:
        found.only = _ONLY[word]
    elif name in dialect.arch_flags:
        archs = value if equals else _next(word, left)
        found.archs += [one for one in archs.split(",") if one]
    elif word in ("--version", "-version"):
        found.version = True
    elif word == "-x":
        found.language = _next(word, left)
    elif word == "-o":
        found.output = Path(_next(word, left))
    elif word in _STAGES:
        found.stage = _STAGES[word]
    elif word == "-dM":
        found.stage = "macros"
    elif word.startswith(_JOINED):
        found.preprocessing.append(word if len(word) > 2 else word + _next(word, left))
    elif word in _APART:
        found.preprocessing += [word, _next(word, left)]
    elif re.fullmatch(r"-O([0-3sz]|fast|g)?", word):
        # How fast the code is says nothing here; how soon it is there does.
        found.optimise = word if word in ("-O0", "-Og") else "-O1"
    elif word in ("-Wall", "-Wextra", "-Werror"):
        found.warnings.append(word)
    elif name in dialect.root_flags or any(re.fullmatch(one, word) for one in dialect.taken):
        if name in dialect.root_flags and not equals:
            _next(word, left)
        if word == "-gencode" and left:
            left.pop(0)
    elif _TAKEN.fullmatch(word):
        pass
    elif word.startswith("-"):
        raise Refused(f"unknown argument: '{word}'")
    else:
        found.inputs.append(Path(word))


def _next(word: str, left: list[str]) -> str:
    if not left:
        raise Refused(f"argument to '{word}' is missing")
    return left.pop(0)
