"""One tree of exceptions. Each carries a stable id, what was tried, what was found and what to do next."""

from __future__ import annotations

from typing import ClassVar


class TuttiError(Exception):
    """Base of every error that this package raises on purpose.

    Args:
        tried: what the caller asked for, in a few words.
        found: what stood in the way, with the offending value.
        fix: what to do next; one sentence.
    """

    id: ClassVar[str] = "TT-ERROR"

    def __init__(self, tried: str, found: str, fix: str) -> None:
        super().__init__(tried, found, fix)
        self.tried = tried
        self.found = found
        self.fix = fix

    def __str__(self) -> str:
        return f"[{self.id}] {self.tried}: {self.found}. {self.fix}"


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
    """A contract table or a vendor's record breaks its schema. ``problems`` holds each place and what is wrong there."""

    id = "TT-SPEC"

    def __init__(self, tried: str, found: str, fix: str, problems: tuple[object, ...] = ()) -> None:
        super().__init__(tried, found, fix)
        self.problems = problems


class GenerationError(TuttiError):
    """A template could not be rendered, or breaks the lint."""

    id = "TT-GENERATE"


class RecordIncomplete(GenerationError):
    """A record lacks host functions or primitives that its capabilities make mandatory."""

    id = "TT-RECORD-INCOMPLETE"


class BuildError(TuttiError):
    """A rendered source could not be compiled."""

    id = "TT-BUILD"


class CompilerMissing(BuildError):
    """No compiler for the profile was found."""

    id = "TT-COMPILER-MISSING"


class NativeError(TuttiError):
    """The native library is missing or does not match this package."""

    id = "TT-NATIVE"
