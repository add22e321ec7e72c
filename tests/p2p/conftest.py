"""The rig is no part of the package: its folder in the checkout is put on the path for these tests."""

from __future__ import annotations

import sys
from pathlib import Path

RIG_HOME = Path(__file__).resolve().parents[2] / "p2p_drivers"

if str(RIG_HOME) not in sys.path:
    sys.path.insert(0, str(RIG_HOME))
