"""L3: every device primitive does what its contract says."""
