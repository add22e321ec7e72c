"""L6: the object store's kernels. Cuts of power are judged in tests/store."""
