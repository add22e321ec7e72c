"""The report: a page about a run for a person, self-contained, readable on a phone, on paper and without a script."""
