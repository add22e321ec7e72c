"""The published schemas of a package (``schemas/*.schema.json``, JSON Schema 2020-12), and what breaks one."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

#: Problems of one document that are told; a document that is wrong all over is wrong.
_TOLD = 5

#: Characters of a message; beyond, it would show a stranger's whole document.
_LONG = 200


@functools.cache
def _validator(name: str) -> Any:
    schema = json.loads(files(__package__).joinpath("schemas", f"{name}.schema.json").read_text(encoding="utf-8"))
    # By name: the library has no types, and only `verify` and `compare` pay for it.
    return importlib.import_module("jsonschema").Draft202012Validator(schema)


def breaks(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """(place inside, what is wrong) of a value that should follow a schema, the first few."""
    for number, error in enumerate(_validator(name).iter_errors(value)):
        if number == _TOLD:
            return
        cause = min(error.context, key=lambda one: len(one.absolute_path), default=error) if error.context else error
        place = ".".join(str(part) for part in cause.absolute_path)
        yield place or "(top)", cause.message if len(cause.message) < _LONG else _short(cause)


def _short(error: Any) -> str:
    return f"{type(error.instance).__name__} that breaks '{error.validator}'"
