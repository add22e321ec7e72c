"""``python -m tutti_hal``: the same as the ``tutti-hal`` command."""

from tutti_hal.cli.main import main

raise SystemExit(main())
