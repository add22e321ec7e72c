"""The object store: what it refuses, and what it finds broken."""

from __future__ import annotations

from tutti_hal.errors.base import TuttiError


class StoreError(TuttiError):
    """The object store refuses what was asked of it."""

    id = "TT-STORE"


class StoreOptionInvalid(StoreError):
    """An option of a store's format or of its opening that cannot be."""

    id = "TT-STORE-OPTION"


class StoreAbsent(StoreError):
    """There is no store on this device."""

    id = "TT-STORE-ABSENT"


class StoreVersionUnknown(StoreError):
    """The store was written in a version of the format that this build does not know."""

    id = "TT-STORE-VERSION"


class StoreDamaged(StoreError):
    """The store's own structures cannot be read: every copy of one of them is broken."""

    id = "TT-STORE-DAMAGED"


class StoreLocked(StoreError):
    """Another process, or another store of this one, has the store open."""

    id = "TT-STORE-LOCKED"


class StoreClosed(StoreError):
    """The store is closed, or an earlier failure of its device left unknown what is durable."""

    id = "TT-STORE-CLOSED"


class StoreFull(StoreError):
    """There is no room for the object, and the policy of eviction does not make any."""

    id = "TT-STORE-FULL"


class KeyInvalid(StoreError):
    """A key that is empty, too long, no text or bytes, or twice in one batch."""

    id = "TT-STORE-KEY"


class ObjectTooLarge(StoreError):
    """An object that does not fit into a segment."""

    id = "TT-STORE-SIZE"


class ObjectAbsent(StoreError):
    """The store has no object of that key."""

    id = "TT-STORE-KEY-ABSENT"


class ObjectDamaged(StoreError):
    """An object's bytes are not those that were committed."""

    id = "TT-STORE-OBJECT-DAMAGED"


class ObjectPinned(StoreError):
    """An object that somebody reads cannot be deleted."""

    id = "TT-STORE-PINNED"


class StoreDeviceError(StoreError):
    """The device under a store did not do what it was asked for."""

    id = "TT-STORE-DEVICE"
