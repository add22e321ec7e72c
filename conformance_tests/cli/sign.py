"""``tutti-hal sign``: answer for a package of evidence with a key of one's own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

_EPILOG = """\
The signature is over manifest.sha256, which names the sum of every file; it is written beside the folder, as DIR.sig.
Nothing is judged: look first, with `tutti-hal verify`. Needs the extra `sign` (pip install 'tutti-hal[sign]').

examples:
  openssl genpkey -algorithm ed25519 -out key.pem
  openssl pkey -in key.pem -pubout -out key.pub.pem
  tutti-hal sign evidence --key key.pem
  tutti-hal verify evidence --signer key.pub.pem

exit: 0 signed; 2 it could not be.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.epilog = _EPILOG
    parser.add_argument("folder", type=Path, metavar="DIR", help="a package")
    parser.add_argument(
        "--key",
        type=Path,
        required=True,
        metavar="FILE",
        help="an Ed25519 private key without a passphrase, PEM or OpenSSH",
    )


def run(args: argparse.Namespace) -> int:
    """Sign.

    Returns:
        0 when it is signed, 2 when it could not be.
    """
    from tutti_hal.conformance_tests.errors import ConformanceError
    from tutti_hal.conformance_tests.package.signature import place_of_signature, sign

    try:
        found = sign(args.folder, args.key)
    except ConformanceError as error:
        print(f"tutti-hal sign: {error}", file=sys.stderr)
        return 2
    print(f"signed: {place_of_signature(args.folder)}: by {found.fingerprint}, manifest SHA-256 {found.manifest}")
    return 0
