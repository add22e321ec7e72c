"""L0: the vendor's record, its claims, and the choice of a profile."""
