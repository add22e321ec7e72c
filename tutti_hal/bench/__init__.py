"""Figures that the ``bench`` verb measures, each beside a baseline of the same run."""
