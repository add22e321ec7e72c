"""Layer B of CUDA: not part of this version. Opening it is refused, so that nothing runs on a pretence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tutti_hal.backends.cuda.detect import NO_RUNTIME
from tutti_hal.errors import ProfileUnusable

if TYPE_CHECKING:
    from tutti_hal.profile import Profile


def open_runtime(profile: Profile) -> NoReturn:
    """Refuse.

    Raises:
        ProfileUnusable: always, in this version.
    """
    raise ProfileUnusable(
        f"open the runtime of profile '{profile}'",
        NO_RUNTIME,
        "Run on TUTTI_PROFILE=host; use this profile with generate and build.",
    )
