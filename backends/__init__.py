"""The vendors: one folder each, every folder with the same files."""
