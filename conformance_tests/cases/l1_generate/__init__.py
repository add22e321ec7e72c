"""L1: generation, compilation and listings."""
