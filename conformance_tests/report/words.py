"""What the report calls things, and what it advises."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tutti_hal.conformance_tests.ladder import Rung
from tutti_hal.conformance_tests.verdict import SkipReason, Verdict

#: What each level is about.
LEVEL_TITLES: Mapping[str, str] = MappingProxyType(
    {
        "L0": "Record and claims",
        "L1": "Generation and compilation",
        "L2": "Host functions",
        "L3": "Device primitives",
        "L4": "Memory model and doorbell",
        "L5": "Ring, controllers, faults",
        "L6": "Object store and storage",
        "L7": "P2P on a real controller",
        "L8": "Soak and performance",
    }
)

#: Why a level has no clause, and so no case.
NO_CLAUSES: Mapping[str, str] = MappingProxyType(
    {
        "L8": "figures, no clauses: they are carried as information and never judged",
    }
)

#: A verdict's or a rung's look: the style sheet gives each a colour and a shape. The word always stands beside it.
TONES: Mapping[str, str] = MappingProxyType(
    {
        Verdict.FAIL: "bad",
        Verdict.ERROR: "fault",
        Verdict.TIMEOUT: "bad",
        Verdict.DEVICE_LOST: "bad",
        Verdict.XPASS: "fault",
        Verdict.INCONCLUSIVE: "open",
        Verdict.NOT_TESTED: "open",
        Verdict.XFAIL: "known",
        Verdict.SKIP: "skip",
        Verdict.WAIVED: "waived",
        Verdict.PASS: "good",
        Rung.PASSED: "good",
        Rung.INCOMPLETE: "open",
        Rung.FAILED: "bad",
        Rung.NOT_RUN: "skip",
    }
)

#: What to do about a verdict that blocks a level.
ADVICE: Mapping[Verdict, str] = MappingProxyType(
    {
        Verdict.FAIL: "Reproduce it, compare what was found with what the clause says, and mend the port.",
        Verdict.ERROR: "The suite itself is at fault: reproduce it and report it. It says nothing about the port yet.",
        Verdict.TIMEOUT: "Reproduce it under a debugger: it hangs, or is far slower than the case allows.",
        Verdict.DEVICE_LOST: "Reproduce it with the device's own log at hand: after it, the device could not be reset.",
        Verdict.XPASS: "It works now: take its clause off the expected failures in the vendor's conformance.yaml.",
        Verdict.INCONCLUSIVE: (
            "It is no pass and no failure: what was seen does not suffice. See the reason, and run it again where more"
            " can happen at once."
        ),
        Verdict.NOT_TESTED: "Run it: nothing is known of it.",
        Verdict.XFAIL: "It is known to fail. The level stays closed until it works and is taken off the list.",
    }
)

#: What each skip code means.
SKIP_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        SkipReason.CAPABILITY: "needs a capability that is declared false, and that is optional at its level",
        SkipReason.UNSUPPORTED: "the vendor declares that it will never be there",
        SkipReason.MACHINE: "this machine lacks something, and the list of its class allows that",
        SkipReason.TOOL: "a tool is not installed, and the list of the machine's class allows that",
    }
)

#: What the word of a report's provenance means.
PROVENANCE_MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "hardware": "on the vendor's own device",
        "emulated": "by an engine on the CPU",
        "simulated": "against a simulated SDK, without the vendor's device",
    }
)

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_TEXT_LIMIT = 4000


def clean(value: Any) -> Any:
    """Text as a page can show it: what is not printable stands as its escape, and nothing is endless."""
    if type(value) is not str:  # Markup is a kind of str, and already safe
        return value
    text = value if len(value) <= _TEXT_LIMIT else f"{value[:_TEXT_LIMIT]}... ({len(value)} characters)"
    if text.isprintable():
        return text
    shown = (c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(shown)


def clipped(text: str, limit: int) -> str:
    """The beginning of a text, one line; an ellipsis says that there is more."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit].rstrip()}…"


def duration(seconds: float) -> str:
    """A duration for a reader."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def plural(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def number_of_bytes(number: int) -> str:
    """A size for a reader, the exact number beside it."""
    value, unit = float(number), _UNITS[0]
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            break
        value /= 1024
    return f"{number} B" if unit == "B" else f"{value:.1f} {unit} ({number} bytes)"
