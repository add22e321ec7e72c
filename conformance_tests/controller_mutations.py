"""Software controllers made to lie: each by fault rules that hold from the start, so that no case asks for them.

A mutation is in force in a whole run (:attr:`SubjectSpec.controller`). Each must be killed: some case FAILs under it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tutti_hal.conformance_tests.errors import ControllerMutationUnknown
from tutti_hal.nvme.software_config import CompletionOrder, ControllerConfig, FaultAction, FaultRule
from tutti_hal.spec.nodes import near_miss

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tutti_hal.nvme.software import SoftwareController

_FLUSH, _WRITE, _READ, _COMPARE, _ZEROES, _DATASET = 0x00, 0x01, 0x02, 0x05, 0x08, 0x09
_DELETE_SQ, _CREATE_SQ, _CREATE_CQ, _IDENTIFY, _ABORT = 0x00, 0x01, 0x05, 0x06, 0x08
_SUCCESS = (0, 0x00)


@dataclass(frozen=True)
class ControllerMutation:
    """One way to lie.

    Attributes:
        says: what such a controller does, in a sentence.
        rules: injected before the controller runs; the first that matches a command wins over later ones.
        config: fields of :class:`ControllerConfig` that are changed behind the host's back.
    """

    says: str
    rules: tuple[FaultRule, ...] = ()
    config: Mapping[str, object] | None = None

    def configured(self, config: ControllerConfig) -> ControllerConfig:
        """The configuration that the lying controller is made of."""
        return config.but(**self.config) if self.config else config

    def strike(self, controller: SoftwareController) -> None:
        """Inject its rules."""
        for rule in self.rules:
            controller.inject(rule)


def _silent(opcode: int, qid: int | None = None) -> tuple[FaultRule, ...]:
    return (FaultRule(action=FaultAction.STATUS, opcode=opcode, status=_SUCCESS, qid=qid),)


#: Name -> what the controllers of a run are.
CONTROLLER_MUTATIONS: Mapping[str, ControllerMutation] = {
    "write.dropped": ControllerMutation("It says that it wrote, and wrote nothing.", _silent(_WRITE)),
    "read.empty": ControllerMutation("It says that it read, and moved nothing.", _silent(_READ)),
    "read.corrupt": ControllerMutation(
        "It flips a bit of what it reads, and says success.",
        (FaultRule(action=FaultAction.CORRUPT, opcode=_READ, nth=3, corrupt_byte=77),),
    ),
    "read.status_late": ControllerMutation(
        "It moves the data of a read, and then says that it failed.",
        (FaultRule(action=FaultAction.STATUS_LATE, opcode=_READ, nth=4, count=1, status=(2, 0x81)),),
    ),
    "compare.always_equal": ControllerMutation("It finds that everything compares equal.", _silent(_COMPARE)),
    "write_zeroes.dropped": ControllerMutation("It says that it wrote zeroes, and did not.", _silent(_ZEROES)),
    "deallocate.dropped": ControllerMutation("It says that it deallocated, and did not.", _silent(_DATASET)),
    "flush.dropped": ControllerMutation("It says that it flushed, and did not.", _silent(_FLUSH)),
    "create_cq.unchecked": ControllerMutation(
        "It accepts every completion queue, and makes none.", _silent(_CREATE_CQ, 0)
    ),
    "delete_sq.dropped": ControllerMutation("It says that it deleted a queue, and keeps it.", _silent(_DELETE_SQ, 0)),
    "identify.empty": ControllerMutation("Its answer to Identify moves no data.", _silent(_IDENTIFY, 0)),
    "abort.says_done": ControllerMutation("It says that it aborted, and did not.", _silent(_ABORT, 0)),
    "range.unchecked": ControllerMutation(
        "It says success of blocks past the end of the namespace.",
        (FaultRule(action=FaultAction.STATUS, lbas=(1 << 16, (1 << 64) - 1), status=_SUCCESS),),
    ),
    "status.other": ControllerMutation(
        "It reports another failure than the one that happened.",
        (FaultRule(action=FaultAction.STATUS, opcode=_COMPARE, status=(2, 0x81), dnr=True),),
    ),
    "completion.lost": ControllerMutation(
        "It forgets a completion now and then.", (FaultRule(action=FaultAction.LOST, opcode=_READ, nth=5),)
    ),
    "completion.twice": ControllerMutation(
        "It posts a completion twice now and then.",
        (FaultRule(action=FaultAction.DUPLICATE, opcode=_WRITE, nth=2),),
    ),
    "completion.stranger": ControllerMutation(
        "It completes commands that nobody sent.",
        (FaultRule(action=FaultAction.UNKNOWN_CID, opcode=_READ, nth=2),),
    ),
    "completion.stuck": ControllerMutation(
        "It never starts some commands.", (FaultRule(action=FaultAction.STUCK, opcode=_WRITE, nth=6),)
    ),
    "status.fatal": ControllerMutation(
        "It reports fatal status and stops serving.",
        (FaultRule(action=FaultAction.FATAL_STOP, opcode=_READ, nth=3),),
    ),
    "registers.gone": ControllerMutation(
        "Its registers read as all ones after some commands.",
        (FaultRule(action=FaultAction.GONE, opcode=_WRITE, nth=3),),
    ),
    "ready.stuck": ControllerMutation(
        "It never becomes ready.", (FaultRule(action=FaultAction.READY_STUCK, immediate=True),)
    ),
    "order.fifo": ControllerMutation(
        "It completes in order, whatever order it was set to.", config={"order": CompletionOrder.FIFO}
    ),
    "mdts.unlimited": ControllerMutation("It takes transfers of any size.", config={"mdts": 0}),
}


def mutation(name: str) -> ControllerMutation | None:
    """The mutation of that name; None for the empty name.

    Raises:
        ControllerMutationUnknown: there is none; the near miss is named.
    """
    if not name:
        return None
    if name not in CONTROLLER_MUTATIONS:
        raise ControllerMutationUnknown(
            f"make controllers as '{name}' has them",
            f"there is no such mutation{near_miss(name, CONTROLLER_MUTATIONS)}",
            f"Name one of: {', '.join(CONTROLLER_MUTATIONS)}.",
        )
    return CONTROLLER_MUTATIONS[name]
