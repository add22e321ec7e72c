"""Who answers for a package: a signature over its manifest, in a file beside the folder.

The manifest names the sum of every file, so whoever signs it signs the whole package; and the package stays what it
was, signed or not. Optional: nothing else of the suite asks for one. Keys are Ed25519, in PEM or as OpenSSH keeps them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tutti_hal.conformance_tests.errors import (
    KeyUnfit,
    NotAPackage,
    PackageUnwritable,
    SignatureBad,
    SignatureMissing,
    SignatureOfAnother,
    SigningUnavailable,
)
from tutti_hal.conformance_tests.package import jsontext, layout

#: What a signature's file is called: the folder's name and this.
ENDING = ".sig"

#: Stands before the manifest in what is signed, so that no signature made for anything else is one of a package.
_CONTEXT = b"tutti-hal package manifest 1\n"

_FORMAT = 1
_KEYS = ("format", "algorithm", "manifest_sha256", "signer", "signature")
_LIMIT_BYTES = 10_000


@dataclass(frozen=True)
class Signature:
    """What a file beside a package says.

    Attributes:
        manifest: SHA-256 of the manifest that was signed.
        signer: the public key, 32 bytes; who it belongs to, the reader must know.
        signature: 64 bytes.
    """

    manifest: str
    signer: bytes
    signature: bytes

    @property
    def fingerprint(self) -> str:
        """The key as one word."""
        return f"ed25519:{base64.b64encode(self.signer).decode('ascii')}"

    def to_json(self) -> dict[str, Any]:
        """As the file holds it."""
        return {
            "format": _FORMAT,
            "algorithm": "ed25519",
            "manifest_sha256": self.manifest,
            "signer": base64.b64encode(self.signer).decode("ascii"),
            "signature": base64.b64encode(self.signature).decode("ascii"),
        }


def place_of_signature(package: Path) -> Path:
    """Where the signature of a package lies: beside its folder."""
    folder = package.resolve()
    return folder.with_name(f"{folder.name}{ENDING}")


def sign(package: Path, key: Path) -> Signature:
    """Sign a package's manifest; the signature is written beside the folder, in the place of an older one.

    Nothing is verified: whoever signs has looked (``tutti-hal verify``).

    Raises:
        NotAPackage: there is no manifest.
        KeyUnfit: the key cannot be read, or is no Ed25519 private key without a passphrase.
        SigningUnavailable: the library is not installed.
        PackageUnwritable: the file cannot be written.
    """
    private = _private(key)
    manifest = _manifest(package)
    found = Signature(sha256(manifest).hexdigest(), _raw(private.public_key()), private.sign(_CONTEXT + manifest))
    path = place_of_signature(package)
    try:
        path.write_bytes(jsontext.document(found.to_json()))
    except OSError as error:
        raise PackageUnwritable(f"write {path}", error.strerror or str(error), "Make the folder writable.") from error
    return found


def check_signature(package: Path, manifest: bytes, signers: Sequence[Path]) -> Signature:
    """That a package's manifest was signed by one of these keys.

    Args:
        package: its folder; the signature lies beside it.
        manifest: as it was read for the verification.
        signers: files of public keys.

    Raises:
        SignatureMissing: there is no signature, or it is none of ours.
        SignatureOfAnother: it is of another manifest than this one.
        SignatureBad: it was not made by one of these keys, or not over this manifest.
        KeyUnfit: a key cannot be read, or is no Ed25519 public key.
        SigningUnavailable: the library is not installed.
    """
    keys = {_raw(key): key for key in map(_public, signers)}
    found = read_signature(package)
    tried = f"check the signature {place_of_signature(package)}"
    total = sha256(manifest).hexdigest()
    if found.manifest != total:
        raise SignatureOfAnother(
            tried,
            f"it is of a manifest with SHA-256 {found.manifest}, and the package's has {total}",
            "The package was changed since, or this signature belongs to another: ask the signer for its own.",
        )
    if found.signer not in keys:
        raise SignatureBad(
            tried, f"it is by {found.fingerprint}", "Name that key with --signer, if you trust whose it is."
        )
    from cryptography.exceptions import InvalidSignature

    try:
        keys[found.signer].verify(found.signature, _CONTEXT + manifest)
    except InvalidSignature as error:
        raise SignatureBad(
            tried, f"{found.fingerprint} did not make it over this manifest", "Ask the signer to sign again."
        ) from error
    return found


def read_signature(package: Path) -> Signature:
    """The signature beside a package, unchecked.

    Raises:
        SignatureMissing: there is none, or it is none of ours.
    """
    path = place_of_signature(package)
    tried, fix = f"read the signature {path}", "Whoever answers for the package makes one: tutti-hal sign."
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT_BYTES + 1)
    except OSError as error:
        raise SignatureMissing(tried, error.strerror or str(error), fix) from error
    try:
        table = jsontext.parse(data[:_LIMIT_BYTES])
        if not isinstance(table, dict) or tuple(table) != _KEYS:
            raise ValueError(f"not an object of {', '.join(_KEYS)}")
        if table["format"] != _FORMAT or table["algorithm"] != "ed25519":
            raise ValueError(f"format {table['format']!r}, algorithm {table['algorithm']!r}")
        texts = [table[name] for name in _KEYS[2:]]
        if not all(isinstance(one, str) for one in texts):
            raise ValueError("a value is no text")
        signer, signature = (base64.b64decode(one, validate=True) for one in texts[1:])
        if len(signer) != 32 or len(signature) != 64:
            raise ValueError(f"a key of {len(signer)} bytes, a signature of {len(signature)}")
    except (ValueError, binascii.Error, jsontext.JsonInvalid) as error:
        raise SignatureMissing(tried, f"it is no signature of ours: {error}", fix) from error
    return Signature(texts[0], signer, signature)


def _manifest(package: Path) -> bytes:
    try:
        return (package / layout.MANIFEST).read_bytes()
    except OSError as error:
        fix = "Name a folder that certify --out wrote."
        raise NotAPackage(f"sign {package}", f"{layout.MANIFEST}: {error.strerror}", fix) from error


def _private(path: Path) -> Any:
    serialization, ed25519 = _library()
    data = _key(path)
    load = serialization.load_pem_private_key
    if b"BEGIN OPENSSH PRIVATE KEY" in data:
        load = serialization.load_ssh_private_key
    try:
        found = load(data, password=None)
    except Exception as error:  # of the library's many, one for each way in which a file may be no key
        raise _unfit(path, f"it cannot be read as a private key without a passphrase: {_said(error)}") from error
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise _unfit(path, f"it is {type(found).__name__}")
    return found


def _public(path: Path) -> Any:
    serialization, ed25519 = _library()
    data = _key(path)
    load = serialization.load_ssh_public_key if data.startswith(b"ssh-") else serialization.load_pem_public_key
    try:
        found = load(data)
    except Exception as error:
        raise _unfit(path, f"it cannot be read as a public key: {_said(error)}") from error
    if not isinstance(found, ed25519.Ed25519PublicKey):
        raise _unfit(path, f"it is {type(found).__name__}")
    return found


def _key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unfit(path, error.strerror or str(error)) from error


def _raw(public: Any) -> bytes:
    data: bytes = public.public_bytes_raw()
    return data


def _unfit(path: Path, found: str) -> KeyUnfit:
    fix = "Make one: openssl genpkey -algorithm ed25519 -out key.pem; openssl pkey -in key.pem -pubout -out key.pub.pem"
    return KeyUnfit(f"use the key {path}", found, fix)


def _said(error: Exception) -> str:
    return " ".join(f"{type(error).__name__} {error}".split())[:200]


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        fix = "pip install 'tutti-hal[sign]'; a package is verified without it as well, but nobody's signature is."
        raise SigningUnavailable("sign, or check a signature", f"the library is missing: {error}", fix) from error
    return serialization, ed25519
