"""Signatures of packages: who signed what is told, and everything else is refused with its own id."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import packages
import pytest

from tutti_hal.cli.main import main
from tutti_hal.conformance_tests.errors import KeyUnfit, SignatureMissing, SigningUnavailable
from tutti_hal.conformance_tests.package import layout
from tutti_hal.conformance_tests.package.signature import check_signature, place_of_signature, read_signature, sign

pytestmark = pytest.mark.suite

Keys = Callable[..., tuple[Path, Path]]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Makes a pair of keys as files: private, public."""
    pytest.importorskip("cryptography", reason="the extra `sign` is not installed")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    def make(name: str, form: str = "pem") -> tuple[Path, Path]:
        key = Ed25519PrivateKey.generate()
        private, public = tmp_path / name, tmp_path / f"{name}.pub"
        plain, coding = serialization.NoEncryption(), serialization.Encoding
        if form == "ssh":
            inner, outer = serialization.PrivateFormat.OpenSSH, serialization.PublicFormat.OpenSSH
            public.write_bytes(key.public_key().public_bytes(coding.OpenSSH, outer) + b" who@where\n")
        else:
            inner, outer = serialization.PrivateFormat.PKCS8, serialization.PublicFormat.SubjectPublicKeyInfo
            public.write_bytes(key.public_key().public_bytes(coding.PEM, outer))
        private.write_bytes(key.private_bytes(coding.PEM, inner, plain))
        return private, public

    return make


def manifest_of(package: Path) -> bytes:
    return (package / layout.MANIFEST).read_bytes()


@pytest.mark.parametrize("form", ["pem", "ssh"])
def test_signed_and_verified_by_the_command(
    package: Path, keys: Keys, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = keys("a", form)
    _, other = keys("b")
    before = packages.sums(package)
    assert main(["sign", str(package), "--key", str(private)]) == 0
    assert "signed: " in capsys.readouterr().out
    assert packages.sums(package) == before
    assert main(["verify", str(package), "--signer", str(other), "--signer", str(public)]) == 0
    out = capsys.readouterr().out
    assert f"remark: manifest.sha256 is signed by {read_signature(package).fingerprint}" in out
    assert main(["verify", str(package)]) == 0
    assert "signed by" not in capsys.readouterr().out


def test_no_signature_another_manifest_another_key_and_a_forged_one(
    package: Path, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    private, public = keys("a")
    stranger, _ = keys("b")
    words = ["verify", str(package), "--signer", str(public)]

    def refused(said: str) -> None:
        assert main(words) == 1
        assert f"refused: manifest.sha256: {said}" in capsys.readouterr().out

    refused("TT-CONFORMANCE-SIGNATURE-MISSING: ")
    sign(package, stranger)
    refused("TT-CONFORMANCE-SIGNATURE-BAD: it is by ed25519:")
    sign(package, private)
    path = place_of_signature(package)
    good = json.loads(path.read_text())
    by_stranger = json.loads(path.read_text())
    sign(package, stranger)
    by_stranger["signature"] = json.loads(path.read_text())["signature"]
    path.write_text(json.dumps(by_stranger))  # the good key's name over a stranger's signature
    refused("TT-CONFORMANCE-SIGNATURE-BAD: ed25519:")
    path.write_text(json.dumps(good))
    packages.edit(package, layout.RUN, lambda table: table.update(seconds=table["seconds"] + 1))
    refused("TT-CONFORMANCE-SIGNATURE-OF-ANOTHER: ")
    good["manifest_sha256"] = sha256(manifest_of(package)).hexdigest()
    path.write_text(json.dumps(good))  # the sum of today over the signature of then
    refused("TT-CONFORMANCE-SIGNATURE-BAD: ed25519:")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 1, "algorithm": "none", "manifest_sha256": "", "signer": "", "signature": ""}',
        '{"format": 1, "algorithm": "ed25519", "manifest_sha256": 3, "signer": "", "signature": ""}',
        '{"format": 1, "algorithm": "ed25519", "manifest_sha256": "", "signer": "!", "signature": ""}',
        '{"format": 1, "algorithm": "ed25519", "manifest_sha256": "", "signer": "AAAA", "signature": "AAAA"}',
        "x" * 100_000,
    ],
)
def test_what_is_no_signature_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "package.sig").write_text(text)
    with pytest.raises(SignatureMissing, match="no signature of ours"):
        read_signature(tmp_path / "package")


def test_a_key_that_is_none(package: Path, keys: Keys, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = keys("a")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    curve = ec.generate_private_key(ec.SECP256R1())
    other = tmp_path / "ec.pem"
    kinds = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    other.write_bytes(curve.private_bytes(*kinds, serialization.NoEncryption()))
    locked = tmp_path / "locked.pem"
    locked.write_bytes(curve.private_bytes(*kinds, serialization.BestAvailableEncryption(b"word")))
    for path in (public, other, locked, tmp_path / "absent"):
        with pytest.raises(KeyUnfit, match="openssl genpkey"):
            sign(package, path)
    with pytest.raises(KeyUnfit):
        check_signature(package, manifest_of(package), [private])
    assert main(["verify", str(package), "--signer", str(private)]) == 2
    assert "TT-CONFORMANCE-KEY-UNFIT" in capsys.readouterr().err
    assert main(["sign", str(tmp_path), "--key", str(private)]) == 2
    assert "TT-CONFORMANCE-NOT-A-PACKAGE" in capsys.readouterr().err


def test_without_the_library_both_say_so(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Needs no library: it must not be there."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(SigningUnavailable):
        sign(package, tmp_path / "key")
    for words in (["sign", str(package), "--key", "k"], ["verify", str(package), "--signer", "k"]):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert "TT-CONFORMANCE-SIGNING-UNAVAILABLE" in err
        assert "tutti-hal[sign]" in err
