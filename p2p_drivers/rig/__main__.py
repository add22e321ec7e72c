"""``python -m rig``, from the folder p2p_drivers."""

import sys

from rig.run import main

if __name__ == "__main__":
    sys.exit(main())
