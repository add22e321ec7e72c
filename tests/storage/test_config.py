"""Deployment and application as YAML: what is wrong is told with file, line, key and near miss."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_rig import MIB, PROFILE, image

from tutti_hal.errors import DrivesInvalid, SpecError
from tutti_hal.storage import Operation, Status, make_requests
from tutti_hal.storage.config import (
    VARIABLES,
    default_application,
    open_runtime,
    read_application,
    read_deployment,
)

pytestmark = pytest.mark.storage

DEPLOYMENT = f"""\
deployment: 1
profile: {PROFILE}
drives:
  - {{name: d0, kind: software, path: drive0.img, lba_bytes: 512}}
  - {{name: scratch, kind: memory, nbytes: 8MiB, mdts: 3}}
"""
APPLICATION = """\
application: 1
drives: [scratch, d0]
ring: {depth: 64, queues: [2], batch_limit: 128, limit_ms: 2000}
max_results: 8
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_runtime_from_two_files(tmp_path: Path) -> None:
    image(tmp_path, "drive0.img", MIB)
    deployment = read_deployment(written(tmp_path, "machine.yaml", DEPLOYMENT))
    application = read_application(written(tmp_path, "app.yaml", APPLICATION), deployment, {})
    assert (application.options.ring.limit_ns, application.options.ring.queues) == (2_000_000_000, (2,))
    with open_runtime(deployment, application) as runtime:
        assert [drive.name for drive in runtime.drives] == ["scratch", "d0"]
        target = runtime.open(f"file://{tmp_path}/drive0.img")
        assert runtime.target(target).block == 512
        memory = runtime.allocate(512)
        memory.numpy()[:] = 7
        done = runtime.submit_all(make_requests(Operation.WRITE, target, nbytes=512, memory=memory.handle))
        assert done["status"].tolist() == [Status.OK]
    assert (tmp_path / "drive0.img").read_bytes()[:513] == b"\x07" * 512 + b"\0"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("deployment: 2\ndrives: []\n", 1, "version 2 is newer than 1"),
        ("deployment: 1\ndrvies: []\n", 2, "unknown key 'drvies'; did you mean 'drives'"),
        ("deployment: 1\ndrives: []\n", 2, "at least 1 element"),
        (
            "deployment: 1\ndrives:\n  - {name: a, kind: softwaer, path: x}\n",
            3,
            "no kind of drive 'softwaer'; did you mean",
        ),
        ("deployment: 1\ndrives:\n  - {name: a, kind: software}\n", 3, "the key 'path' is missing"),
        ("deployment: 1\ndrives:\n  - {name: a, kind: memory, nbytes: 1, path: x}\n", 3, "unknown key 'path'"),
        ("deployment: 1\ndrives:\n  - {name: a/b, kind: memory, nbytes: 1MiB}\n", 3, "'a/b' is not a well-formed name"),
        ("deployment: 1\ndrives:\n  - name: a\n    kind: memory\n    nbytes: 12MB\n", 5, "expected bytes"),
        ("deployment: 1\ndrives:\n  - {name: a, kind: memory, nbytes: 1MiB, lba_bytes: 600}\n", 3, "blocks of 600"),
        (
            "deployment: 1\ndrives:\n  - {name: a, kind: memory, nbytes: 1MiB}\n"
            "  - {name: a, kind: memory, nbytes: 1MiB}\n",
            2,
            "two drives have the name 'a'",
        ),
    ],
)
def test_deployments_that_are_wrong(tmp_path: Path, text: str, line: int, words: str) -> None:
    path = written(tmp_path, "machine.yaml", text)
    with pytest.raises(SpecError) as refused:
        read_deployment(path)
    assert f"{path}:{line}: " in str(refused.value)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("application: 1\ndrives: [scrach]\n", "app.yaml:2: drives[0]: no drive 'scrach'; did you mean 'scratch'"),
        ("application: 1\nring: {dept: 3}\n", "unknown key 'dept'; did you mean 'depth'"),
        ("application: 1\nring: {depth: 1}\n", "1 is out of range"),
        ("application: 9\n", "version 9 is newer"),
        ("drives: [d0]\n", "the key 'application' is missing"),
        ("application: 1\npath: /dev/x\n", "unknown key 'path'"),
    ],
)
def test_applications_that_are_wrong(tmp_path: Path, text: str, words: str) -> None:
    deployment = read_deployment(written(tmp_path, "machine.yaml", DEPLOYMENT))
    with pytest.raises(SpecError) as refused:
        read_application(written(tmp_path, "app.yaml", text), deployment, {})
    assert words in str(refused.value)


def test_a_name_is_checked_at_the_latest_when_the_runtime_is_made(tmp_path: Path) -> None:
    deployment = read_deployment(written(tmp_path, "machine.yaml", DEPLOYMENT))
    application = read_application(written(tmp_path, "app.yaml", "application: 1\ndrives: [scrach]\n"), None, {})
    with pytest.raises(DrivesInvalid, match="did you mean 'scratch'"):
        open_runtime(deployment, application)


def test_the_environment_overrides(tmp_path: Path) -> None:
    path = written(tmp_path, "app.yaml", APPLICATION)
    environment = {name: str(10 + number) for number, name in enumerate(VARIABLES)}
    found = read_application(path, None, environment).options
    ring = found.ring
    assert (ring.depth, ring.batch_limit, ring.batches, ring.buffers) == (10, 11, 12, 13)
    assert (ring.lanes, ring.limit_ns, found.max_results) == (14, 15_000_000, 16)
    assert default_application({}).options.ring.batches == 4
    for value in ("", "x", "-1", "1", "1e3"):
        with pytest.raises(DrivesInvalid, match=f"TUTTI_STORAGE_DEPTH={value}"):
            default_application({"TUTTI_STORAGE_DEPTH": value})
