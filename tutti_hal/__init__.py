"""tutti-hal: GPU-driven storage on every GPU vendor.

Importing this package is cheap: no SDK, no NumPy and no native library is touched until it is used.
"""

__version__ = "0.1.0"
