"""The package resolver against a fake apt: names, trees that are whole or absent, one clear line on every failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from rig import kernels, packages, tools
from rig.errors import RigError

DEPENDS = {
    "linux-image-amd64": "linux-image-amd64\n  Depends: linux-image-6.9.0-1-amd64\n",
    "linux-headers-6.9.0-1-amd64": (
        "linux-headers-6.9.0-1-amd64\n  Depends: linux-headers-6.9.0-1-common\n"
        "  Depends: linux-kbuild-6.9\n |Depends: linux-compiler-gcc-12-x86\n  Depends: <virtual>\n"
    ),
}
FILES = {
    "linux-image-6.9.0-1-amd64": {"boot/vmlinuz-6.9.0-1-amd64": "k", "lib/modules/6.9.0-1-amd64/kernel/a.ko": "m"},
    "linux-headers-6.9.0-1-amd64": {
        "usr/src/linux-headers-6.9.0-1-amd64/Makefile": "include /usr/src/linux-headers-6.9.0-1-common/Makefile\n"
    },
}


class FakeApt:
    """Answers as apt and dpkg-deb do, for a small archive."""

    def __init__(self, *, broken: bool = False) -> None:
        self.calls: list[tuple[str, ...]] = []
        self._broken = broken

    def __call__(self, argv: Sequence[str], *, cwd: Path | None = None, timeout_s: float = 60.0) -> str:
        assert timeout_s > 0
        self.calls.append(tuple(argv))
        words = [word for word in argv if not word.startswith("-") and "::" not in word]
        if words[:2] == ["apt-cache", "depends"]:
            return DEPENDS[words[2]]
        if words[:2] == ["apt-cache", "pkgnames"]:
            return "\n".join(name for name in DEPENDS if name.startswith(words[2]))
        if words[:2] == ["apt-get", "download"]:
            assert cwd is not None
            for name in words[2:]:
                (cwd / f"{name}_1_amd64.deb").write_text(name)
        if argv[0] == "dpkg-deb":
            if self._broken:
                raise RigError("running dpkg-deb", "exit 2", "run it by hand")
            for name, text in FILES.get(Path(argv[2]).read_text(), {}).items():
                file = Path(argv[3]) / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        return ""


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "keyring.gpg"
    path.touch()
    monkeypatch.setattr(packages, "KEYRING", path)
    return path


def archive(tmp_path: Path, apt: FakeApt) -> packages.Archive:
    return packages.Archive("bookworm", tmp_path / "cache", "http://m.example", runner=apt)


@pytest.mark.usefixtures("keyring")
def test_a_kernel_is_the_one_that_the_suite_names_and_is_fetched_once(tmp_path: Path) -> None:
    apt = FakeApt()
    kernel = kernels.fetch(archive(tmp_path, apt), kernels.line("6.1"))
    assert kernel.release == "6.9.0-1-amd64"
    assert kernel.image.read_text() == "k"
    assert (kernel.modules / "kernel" / "a.ko").exists()
    calls = len(apt.calls)
    assert kernels.fetch(archive(tmp_path, apt), kernels.line("6.1")) == kernel
    assert len(apt.calls) == calls


@pytest.mark.usefixtures("keyring")
def test_headers_point_into_their_own_tree(tmp_path: Path) -> None:
    apt = FakeApt()
    suite = archive(tmp_path, apt)
    kernel = kernels.fetch(suite, kernels.line("6.1"))
    folder = kernels.fetch_headers(suite, kernel)
    wanted = f"include {tmp_path}/cache/kernel/bookworm-headers/usr/src/linux-headers-6.9.0-1-common/Makefile\n"
    assert (folder / "Makefile").read_text() == wanted
    assert kernels.fetch_headers(suite, kernel) == folder
    assert (folder / "Makefile").read_text() == wanted
    downloads = [call for call in apt.calls if "download" in call]
    assert {"linux-headers-6.9.0-1-common", "linux-kbuild-6.9"} <= set(downloads[-1])
    assert "linux-compiler-gcc-12-x86" not in downloads[-1]


@pytest.mark.usefixtures("keyring")
def test_a_tree_that_was_not_unpacked_whole_does_not_exist(tmp_path: Path) -> None:
    suite = archive(tmp_path, FakeApt(broken=True))
    tree = tmp_path / "cache" / "tree"
    with pytest.raises(RigError, match="dpkg-deb"):
        suite.unpack(tree, ("linux-image-6.9.0-1-amd64",))
    assert not tree.exists()
    archive(tmp_path, FakeApt()).unpack(tree, ("linux-image-6.9.0-1-amd64",))
    assert tree.exists()


@pytest.mark.usefixtures("keyring")
def test_apt_uses_nothing_of_the_host(tmp_path: Path) -> None:
    apt = FakeApt()
    archive(tmp_path, apt).update()
    (call,) = apt.calls
    text = " ".join(call)
    for option in ("Dir::Etc::sourceparts=/dev/null", "Dir::State::status=/dev/null", f"{tmp_path}/cache/apt/bookworm"):
        assert option in text


def test_a_keyring_that_is_absent_is_told_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "KEYRING", tmp_path / "absent.gpg")
    with pytest.raises(RigError, match="sudo apt-get install debian-archive-keyring") as caught:
        archive(tmp_path, FakeApt()).update()
    assert "\n" not in str(caught.value)


def test_a_program_that_is_absent_is_told_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RigError, match="sudo apt-get install dpkg"):
        tools.run(("dpkg-deb", "--version"))


def test_a_program_that_fails_or_hangs_is_one_line() -> None:
    with pytest.raises(RigError, match="exit 3: oh") as caught:
        tools.run(("sh", "-c", "echo oh >&2; exit 3"))
    assert "\n" not in str(caught.value)
    with pytest.raises(RigError, match="not done after"):
        tools.run(("sleep", "9"), timeout_s=0.1)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("sources.list.d/debian.sources", "Types: deb\nURIs: http://m.example/debian/\n", "http://m.example/debian"),
        ("sources.list", "# x\ndeb [arch=amd64] https://n.example/d bookworm main\n", "https://n.example/d"),
    ],
)
def test_the_mirror_is_the_one_that_the_machine_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, wanted: str
) -> None:
    monkeypatch.delenv("TUTTI_RIG_MIRROR", raising=False)
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert packages.mirror_of_host(tmp_path) == wanted
    monkeypatch.setenv("TUTTI_RIG_MIRROR", "http://o.example/")
    assert packages.mirror_of_host(tmp_path) == "http://o.example"


def test_without_a_mirror_the_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUTTI_RIG_MIRROR", raising=False)
    with pytest.raises(RigError, match="TUTTI_RIG_MIRROR"):
        packages.mirror_of_host(tmp_path)


def test_an_unknown_kernel_line_lists_those_there_are() -> None:
    with pytest.raises(RigError, match=r"choose from: 5\.10 6\.1 6\.12 newest"):
        kernels.line("4.19")
