"""The rig's one exception: what was tried, what was found, and the command or the change that mends it."""

from __future__ import annotations


class RigError(Exception):
    """The rig itself cannot go on (a tool, a package or a machine is missing); no case has failed.

    ``tried`` and ``found`` make the sentence, ``fix`` is a command or an instruction on the same line.
    """

    def __init__(self, tried: str, found: str, fix: str) -> None:
        super().__init__(f"{tried}: {found}; {fix}")
        self.tried = tried
        self.found = found
        self.fix = fix
