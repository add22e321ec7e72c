"""One vendor."""
