"""Shared by the tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

# The fake lies beside its tests and is no part of any package.
sys.path.insert(0, str(Path(__file__).parent))
