"""Scaffolds of backend packages: what ``new-backend`` refuses."""

from __future__ import annotations

from tutti_hal.errors.base import TuttiError


class ScaffoldError(TuttiError):
    """A scaffold cannot be made or updated."""

    id = "TT-SCAFFOLD"


class VendorNameInvalid(ScaffoldError):
    """The name cannot be a vendor's: it is not lower case, or has other characters than a record allows."""

    id = "TT-SCAFFOLD-NAME"


class VendorNameTaken(ScaffoldError):
    """A backend of this name is installed already."""

    id = "TT-SCAFFOLD-TAKEN"


class FolderOccupied(ScaffoldError):
    """The folder is not empty, or is no folder."""

    id = "TT-SCAFFOLD-FOLDER"


class AnswersInvalid(ScaffoldError):
    """There is no scaffold to update: its answers are missing or damaged, or its record cannot be read."""

    id = "TT-SCAFFOLD-ANSWERS"
