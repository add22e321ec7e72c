"""The suite's cases, one folder a level. Every module below is imported by the catalogue."""
