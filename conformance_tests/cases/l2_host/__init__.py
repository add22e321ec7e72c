"""L2: every host function, with its errors."""
