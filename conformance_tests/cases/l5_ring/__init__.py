"""L5: the ring, the controllers that answer it, and their faults."""
