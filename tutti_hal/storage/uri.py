"""URIs of targets: ``file:///path``, ``raw://drive``, ``striped://drive,drive`` and ``striped:///path,/path``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

from tutti_hal.errors import UriInvalid
from tutti_hal.spec.nodes import near_miss

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_FORMS = "file:///path?mode=r|rw, raw://drive?offset=&size=&mode=, striped://drive,drive?unit=&rotation=&mode="


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI taken apart.

    Attributes:
        text: as it was given.
        scheme: ``file``, ``raw`` or ``striped``.
        members: absolute paths of ``file`` and of ``striped`` over files; names of drives else.
        options: what follows the question mark.
    """

    text: str
    scheme: str
    members: tuple[str, ...]
    options: dict[str, str]

    @property
    def doing(self) -> str:
        """For errors."""
        return f"open {self.text}"

    @property
    def of_files(self) -> bool:
        """Whether its members are paths."""
        return self.members[0].startswith("/")

    @property
    def writable(self) -> bool:
        """Whether writes are asked for; they are unless ``mode=r``.

        Raises:
            UriInvalid: another mode.
        """
        mode = self.options.get("mode", "rw")
        if mode not in ("r", "rw"):
            raise UriInvalid(self.doing, f"mode={mode}", "Use mode=r or mode=rw.")
        return mode == "rw"

    def number(self, name: str, default: int | None) -> int | None:
        """A number of bytes, or a count: ``4096``, ``512KiB``.

        Raises:
            UriInvalid: it is none.
        """
        text = self.options.get(name)
        if text is None:
            return default
        found = re.fullmatch(r"(\d{1,19})(|KiB|MiB|GiB|TiB)", text)
        if found is None or int(found[1]) * _UNITS[found[2]] >= 1 << 63:
            raise UriInvalid(self.doing, f"{name}={text}", "Use a whole number, such as 4096 or 512KiB.")
        return int(found[1]) * _UNITS[found[2]]


#: Scheme, host, path, query and fragment, as RFC 3986 takes a URI apart (appendix B).
_PARTS = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_OPTIONS: dict[str, Sequence[str]] = {
    "file": ("mode",),
    "raw": ("mode", "offset", "size"),
    "striped": ("mode", "unit", "rotation", "offset", "size"),
}


def parse(text: str) -> Uri:
    """Takes a URI apart. A comma or question mark in a path is written as %2C or %3F.

    Raises:
        UriInvalid: an unknown scheme or option, an option given twice, or no member.
    """
    found = _PARTS.fullmatch(text)
    assert found is not None  # every text has these parts, empty ones among them
    scheme, host, path, query, fragment = found.groups("")
    known = _OPTIONS.get(scheme)
    if known is None:
        raise UriInvalid(
            f"open {text}", f"no scheme '{scheme}'{near_miss(scheme, _OPTIONS)}", f"Write it as one of: {_FORMS}."
        )
    options = _options(text, scheme, query, known) if query else {}
    if fragment:
        raise UriInvalid(f"open {text}", f"a fragment '#{fragment}'", "Write # in a path as %23.")
    if host and path not in ("", "/"):
        raise UriInvalid(f"open {text}", f"both '{host}' and '{path}'", f"Write it as one of: {_FORMS}.")
    return Uri(text, scheme, _members(text, scheme, host, path), options)


def _options(text: str, scheme: str, query: str, known: Sequence[str]) -> dict[str, str]:
    doing = f"open {text}"
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError as error:
        raise UriInvalid(doing, str(error), f"Write it as one of: {_FORMS}.") from None
    names = [name for name, _ in pairs]
    for name in names:
        if name not in known:
            raise UriInvalid(
                doing, f"{scheme}:// has no option '{name}'{near_miss(name, known)}", f"Known: {', '.join(known)}."
            )
        if names.count(name) > 1:
            raise UriInvalid(doing, f"the option '{name}' is given twice", "Give it once.")
    return dict(pairs)


def _members(text: str, scheme: str, host: str, path: str) -> tuple[str, ...]:
    listed = host or path
    members = (unquote(listed),) if scheme == "file" else tuple(map(unquote, listed.split(",")))
    if scheme == "file" and host:
        raise UriInvalid(f"open {text}", f"a host '{host}'", "Write three slashes before the path: file:///path.")
    if scheme == "raw" and (len(members) != 1 or members[0].startswith("/")):
        raise UriInvalid(f"open {text}", f"'{listed}' is not one drive", "Write it as raw://drive.")
    if not all(members) or "\0" in "".join(members) or members == ("/",):
        raise UriInvalid(f"open {text}", "it names nothing", f"Write it as one of: {_FORMS}.")
    if len(members) > 1 and len({member.startswith("/") for member in members}) > 1:
        raise UriInvalid(f"open {text}", "paths and drives together", "Name paths only, or drives only.")
    if not text.isascii():
        try:
            os.fsencode(text)
        except UnicodeEncodeError as error:
            raise UriInvalid(
                f"open {text!a}", f"a character that no path has ({error.reason})", "Write bytes as %XX."
            ) from None
    return members


def path_uri(path: str) -> str:
    """The ``file://`` URI of an absolute path."""
    from urllib.parse import quote

    return "file://" + quote(path)
