"""Which vendor, toolchain and arch: selection, contract tables and records."""

from __future__ import annotations

from tutti_hal.errors.base import TuttiError


class ProfileError(TuttiError):
    """No profile could be selected."""

    id = "TT-PROFILE"


class ProfileUnknown(ProfileError):
    """The named profile does not exist."""

    id = "TT-PROFILE-UNKNOWN"


class ProfileUnusable(ProfileError):
    """The named profile exists and cannot be used here."""

    id = "TT-PROFILE-UNUSABLE"


class ProfileAmbiguous(ProfileError):
    """Several hardware vendors are usable and none was named, or none is usable."""

    id = "TT-PROFILE-AMBIGUOUS"


class SpecError(TuttiError):
    """A contract table or a vendor's record breaks its schema; ``problems`` holds each place and what is wrong."""

    id = "TT-SPEC"

    def __init__(self, tried: str, found: str, fix: str, problems: tuple[object, ...] = ()) -> None:
        super().__init__(tried, found, fix)
        self.problems = problems
