"""The storage runtime for programs in other languages: a C header, and a library that has this Python inside.

``python -m tutti_hal.storage.c_api DIR`` builds both. ``tutti_storage.h`` is the contract; ``calls`` is what stands
behind each of its functions.
"""

from tutti_hal.storage.c_api.building import Built, build

__all__ = ["Built", "build"]
