"""Scaffolds of backend packages outside the project: a working copy of HOST, in which every fact is marked.

A line that the vendor must answer ends in a marker, ``#? what to find out [the clause that checks it]``. Who has
answered it takes the marker away. ``answers.yaml`` keeps what was asked, so that an update adds only what is new.
"""

from tutti_hal.scaffold.package import Scaffold, check_name, create
from tutti_hal.scaffold.update import Update, update

__all__ = ["Scaffold", "Update", "check_name", "create", "update"]
