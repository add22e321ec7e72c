"""URIs of targets: ``file:///path``, ``raw://drive``, ``striped://drive,drive`` and ``striped:///path,/path``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from tutti_hal.errors import UriInvalid
from tutti_hal.spec.nodes import near_miss

_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_FORMS = "file:///path?mode=r|rw, raw://drive?offset=&size=&mode=, striped://drive,drive?unit=&rotation=&mode="


@dataclass(frozen=True)
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


_OPTIONS: dict[str, Iterable[str]] = {
    "file": ("mode",),
    "raw": ("mode", "offset", "size"),
    "striped": ("mode", "unit", "rotation", "offset", "size"),
}


def parse(text: str) -> Uri:
    """Takes a URI apart. A comma or question mark in a path is written as %2C or %3F.

    Raises:
        UriInvalid: an unknown scheme or option, an option given twice, or no member.
    """
    doing = f"open {text}"
    try:
        parts = urlsplit(text)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise UriInvalid(doing, str(error), f"Write it as one of: {_FORMS}.") from None
    if parts.scheme not in _OPTIONS:
        raise UriInvalid(
            doing, f"no scheme '{parts.scheme}'{near_miss(parts.scheme, _OPTIONS)}", f"Write it as one of: {_FORMS}."
        )
    known = list(_OPTIONS[parts.scheme])
    names = [name for name, _ in options]
    for name in names:
        if name not in known:
            raise UriInvalid(
                doing,
                f"{parts.scheme}:// has no option '{name}'{near_miss(name, known)}",
                f"Known: {', '.join(known)}.",
            )
        if names.count(name) > 1:
            raise UriInvalid(doing, f"the option '{name}' is given twice", "Give it once.")
    if parts.fragment:
        raise UriInvalid(doing, f"a fragment '#{parts.fragment}'", "Write # in a path as %23.")
    if parts.netloc and parts.path not in ("", "/"):
        raise UriInvalid(doing, f"both '{parts.netloc}' and '{parts.path}'", f"Write it as one of: {_FORMS}.")
    listed = parts.netloc or parts.path
    pieces = [listed] if parts.scheme == "file" else listed.split(",")
    members = tuple(unquote(piece) for piece in pieces)
    if parts.scheme == "file" and parts.netloc:
        raise UriInvalid(doing, f"a host '{parts.netloc}'", "Write three slashes before the path: file:///path.")
    if parts.scheme == "raw" and (len(members) != 1 or members[0].startswith("/")):
        raise UriInvalid(doing, f"'{listed}' is not one drive", "Write it as raw://drive.")
    if not all(members) or any("\0" in member for member in members) or members == ("/",):
        raise UriInvalid(doing, "it names nothing", f"Write it as one of: {_FORMS}.")
    if len({member.startswith("/") for member in members}) > 1:
        raise UriInvalid(doing, "paths and drives together", "Name paths only, or drives only.")
    return Uri(text, parts.scheme, members, dict(options))


def path_uri(path: str) -> str:
    """The ``file://`` URI of an absolute path."""
    from urllib.parse import quote

    return "file://" + quote(path)
