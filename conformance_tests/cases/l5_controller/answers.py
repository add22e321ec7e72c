"""Commands by name and their statuses: shared by the cases of the controller. No case is here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tutti_hal.conformance_tests.oracle.host import Host
from tutti_hal.conformance_tests.oracle.nvme import (
    Status,
)
from tutti_hal.conformance_tests.seen import Seen


def answers(host: Host, qid: int, commands: Mapping[str, bytes]) -> dict[str, list[int]]:
    """Run commands one by one; the status of each."""
    return {name: list(host.run(qid, command).status) for name, command in commands.items()}


def judge_answers(seen: Seen, clause: str, found: Mapping[str, Sequence[int]], wanted: Mapping[str, Status]) -> None:
    """Each command was tried, and was answered as it must be."""
    seen.equal(clause, "commands that were tried", sorted(found), sorted(wanted))
    for name, status in wanted.items():
        seen.equal(clause, f"status of {name}", list(found[name]), list(status))
