"""The suite's verbs, one file each; the table of verbs is in ``tutti_hal.cli.main``."""
