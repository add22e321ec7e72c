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


class SdkMissing(ProfileUnusable):
    """The vendor's SDK is not on this machine, or a variable names a folder that is not there."""

    id = "TT-SDK-MISSING"


class SdkForeign(ProfileUnusable):
    """A folder that was named as the vendor's SDK is something else, perhaps another vendor's."""

    id = "TT-SDK-FOREIGN"


class SdkIncomplete(ProfileUnusable):
    """The vendor's SDK is half installed."""

    id = "TT-SDK-INCOMPLETE"


class SdkDefective(ProfileUnusable):
    """The SDK's version has a known defect that cannot be lived with."""

    id = "TT-SDK-DEFECTIVE"


class NumbersDiffer(ProfileUnusable):
    """The SDK's headers give other numbers, or other names, than the vendor's record; each is listed by name."""

    id = "TT-SDK-NUMBERS"


class ProfileAmbiguous(ProfileError):
    """Several hardware vendors are usable and none was named, or none is usable."""

    id = "TT-PROFILE-AMBIGUOUS"


class SpecError(TuttiError):
    """A contract table or a vendor's record breaks its schema; ``problems`` holds each place and what is wrong."""

    id = "TT-SPEC"

    def __init__(self, tried: str, found: str, fix: str, problems: tuple[object, ...] = ()) -> None:
        super().__init__(tried, found, fix)
        self.problems = problems
