"""The fault rules of a trial, and what each batch may meet of them. Of several that match, the first wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tutti_hal.conformance_tests.campaign.steps import OPCODES, STATES
from tutti_hal.conformance_tests.campaign.wide.tables import FLUSH

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tutti_hal.conformance_tests.campaign.steps import Setting
    from tutti_hal.conformance_tests.campaign.wide.view import View

_COMPLETED = STATES.index("COMPLETED")
_STATUS_ACTIONS = ("STATUS", "STATUS_LATE")
_ENDLESS = ("LOST", "STUCK")
_EVER = 1 << 62


@dataclass
class Rule:
    """A rule, and what is known of it so far.

    Attributes:
        number: in the order of injection.
        drive, fields: as injected.
        active: not cleared.
        matches: commands that matched it.
        exact: no other rule came before it for one of those, and all of them surely reached the drive.
        told: strikes that statuses told of.
        loose: strikes that may have been hidden behind another command of the same request.
        hits: as the drive counted by the end of the batch before.
    """

    number: int
    drive: int
    fields: Mapping[str, Any]
    active: bool = True
    matches: int = 0
    exact: bool = True
    told: int = 0
    loose: int = 0
    hits: int = 0

    @property
    def action(self) -> str:
        """What it does."""
        return str(self.fields["action"])

    @property
    def most(self) -> int:
        """Strikes at most."""
        return int(self.fields["count"]) or _EVER

    @property
    def always(self) -> bool:
        """Whether it strikes each command that it matches."""
        return bool(self.fields["nth"] == 1 and self.fields["count"] == 0 and self.fields["rate"] == 1.0)

    @property
    def strikes(self) -> int:
        """Strikes by now, of a rule that leaves nothing to chance; else the most there can be."""
        return min(self.most, max(0, self.matches - int(self.fields["nth"]) + 1))

    @property
    def status(self) -> int:
        """Type, code, DNR and CRD as one number."""
        sct, sc = self.fields["status"]
        return int(_status(sct, sc, int(self.fields["dnr"]), int(self.fields["crd"])))

    def match(self, view: View) -> NDArray[np.bool_]:
        """Commands of a batch that it is about."""
        owner = view.owner_of_command
        verb = view.verb[owner]
        found: NDArray[np.bool_] = view.drive[owner] == self.drive
        if self.fields["opcode"] is not None:
            found = found & (verb == list(OPCODES.values()).index(self.fields["opcode"]))
        if self.fields["lbas"] is not None:
            first, last = self.fields["lbas"]
            found = found & (verb != FLUSH) & (view.first_lba <= last) & (view.last_lba >= first)
        return found


@dataclass
class Allowed:
    """What the commands of a batch may meet.

    Attributes:
        natural: of each command, whether it may end as one that nothing strikes.
        endless: of each request, whether it may have no end.
        statuses: number of a rule, the status that it gives, and the requests that may end with it.
    """

    natural: NDArray[np.bool_]
    endless: NDArray[np.bool_]
    statuses: list[tuple[int, int, NDArray[np.bool_]]] = field(default_factory=list)
    may: dict[int, NDArray[np.bool_]] = field(default_factory=dict)

    def struck_by(self, ended: NDArray[np.int64]) -> NDArray[np.int64]:
        """Of each request, the rule that its status tells of, and that may have struck it; -1 for none."""
        import numpy as np

        code = _status(ended[:, 2], ended[:, 3], ended[:, 4], ended[:, 5])
        found = np.full(len(ended), -1, np.int64)
        for number, status, mask in self.statuses:
            found[mask & (code == status) & (ended[:, 0] == _COMPLETED)] = number
        return found


class RuleBook:
    """All rules that ever were, in the order of injection.

    Args:
        setting: of the trial.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._rules: list[Rule] = []

    def add(self, drive: int, fields: Mapping[str, Any]) -> None:
        """A rule was injected."""
        self._rules.append(Rule(len(self._rules), drive, fields))

    def clear(self, drive: int) -> None:
        """All rules of a drive are gone."""
        for rule in self._rules:
            rule.active = rule.active and rule.drive != drive

    def numbers(self, action: str) -> list[int]:
        """The rules that do so."""
        return [rule.number for rule in self._rules if rule.action == action]

    def allowed(self, view: View) -> Allowed:
        """What a batch may meet. Counts its commands as matches of the rules."""
        import numpy as np

        exposed = np.ones(view.commands, bool)
        natural = np.ones(view.commands, bool)
        found = Allowed(natural, np.zeros(len(view), bool))
        met = np.zeros(view.commands, bool)
        # Commands that an earlier rule may take which lets them end well.
        eased = np.zeros(view.commands, bool)
        for rule in self._rules:
            if not rule.active:
                continue
            match = rule.match(view)
            rule.exact = rule.exact and not (match & met).any()
            met |= match
            rule.matches += int(match.sum())
            match = match & exposed
            if rule.hits >= rule.most or rule.matches < int(rule.fields["nth"]):
                continue
            found.may[rule.number] = match
            if rule.action in _STATUS_ACTIONS:
                found.statuses.append((rule.number, rule.status, view.any_of(match)))
                if rule.always:
                    natural &= ~match | eased
            elif rule.action in _ENDLESS:
                found.endless |= view.any_of(match)
            else:
                eased |= match
            if rule.always:
                exposed &= ~match
        return found

    def strikes(
        self, view: View, ended: NDArray[np.int64], allowed: Allowed, hits: Sequence[int]
    ) -> Iterator[tuple[int, int, int]]:
        """Of each rule in force: its number, and how often it has struck, at least and at most, after this batch."""
        import numpy as np

        struck = allowed.struck_by(ended)
        done = ended[:, 0] == _COMPLETED
        good = done & (ended[:, 2] == 0) & (ended[:, 3] == 0)
        for rule in self._rules:
            if not rule.active:
                continue
            rule.exact = rule.exact and bool(done[view.drive == rule.drive].all())
            match = allowed.may.get(rule.number)
            if match is not None:
                of_request = np.bincount(view.owner_of_command[match], minlength=len(view))
                told = struck == rule.number
                rule.told += int(told.sum())
                hidden = np.where(done, np.minimum(of_request, view.parts - 1), of_request)
                hidden = np.where(told, of_request - 1, hidden)
                rule.loose += int(hidden[~good & (of_request > 0)].sum())
            low, high = 0, rule.strikes
            if rule.action in _STATUS_ACTIONS:
                low, high = rule.told, min(high, rule.told + rule.loose)
            if rule.exact and rule.fields["rate"] == 1.0:
                low = max(low, rule.strikes)
            yield rule.number, low, high
            rule.hits = hits[rule.number]

    def strays_of(self, drive: int, hits: Sequence[int]) -> int:
        """Completions for nobody that a drive has sent, by its rules' strikes."""
        return sum(
            hits[rule.number]
            for rule in self._rules
            if rule.drive == drive and rule.action in ("DUPLICATE", "UNKNOWN_CID")
        )


def _status(sct: Any, sc: Any, dnr: Any, crd: Any) -> Any:
    return sct << 12 | sc << 4 | dnr << 2 | crd
