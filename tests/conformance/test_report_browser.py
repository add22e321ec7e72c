"""The report in a browser: quiet console, no sideways scrolling on a phone, readable without scripts, printable."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conformance.reports import hostile, make, mixed
from tutti_hal.conformance_tests.report.html import render

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = [
    pytest.mark.suite,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed"),
    pytest.mark.slow,
]

#: Put into a frame's owner, so that the page itself stays as it is, its policy too.
_MEASURE = """<!doctype html><meta charset="utf-8">
<iframe width="360" height="800" style="border:0" src="{page}"></iframe>
<p id="said">nothing</p>
<script>
document.querySelector("iframe").addEventListener("load", (event) => {{
  const inner = event.target.contentDocument;
  const wide = () => {{
    const room = inner.scrollingElement;
    const out = [...inner.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > 361
      && !one.closest("pre") && !one.closest("thead") && getComputedStyle(one).display !== "none");
    return `${{room.scrollWidth}} of ${{event.target.contentWindow.innerWidth}}, ${{out.length}} out`;
  }};
  const folded = wide();
  inner.querySelectorAll("details").forEach((one) => {{ one.open = true; }});
  document.getElementById("said").textContent = `folded: ${{folded}}; open: ${{wide()}};`
    + ` filter: ${{inner.querySelectorAll("#tools:not([hidden]) input").length}}`;
}});
</script>
"""


def browse(*options: str, page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Chromium on a page, with nothing of its own between it and the page."""
    assert CHROMIUM is not None
    base = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
    base += ["--enable-logging=stderr", "--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}"]
    return subprocess.run(
        [CHROMIUM, *base, *options, page.as_uri()], capture_output=True, text=True, timeout=100, check=True
    )


def console(ran: subprocess.CompletedProcess[str]) -> list[str]:
    """What the page said on the console, warnings and policy violations too."""
    return [line for line in ran.stderr.splitlines() if ":CONSOLE" in line]


@pytest.fixture(scope="module", params=["mixed", "hostile"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report as a file."""
    session = make(mixed, archs=("threads-w128", "sim-w32")) if request.param == "mixed" else hostile()
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(session), encoding="utf-8")
    return path


def test_fits_a_phone_and_leaves_the_console_alone(page: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer.html"
    outer.write_text(_MEASURE.format(page=page.as_uri()), encoding="utf-8")
    ran = browse("--virtual-time-budget=20000", "--dump-dom", page=outer, folder=tmp_path)
    assert console(ran) == []
    said = re.search(r'<p id="said">(.*?)</p>', ran.stdout)
    assert said is not None
    assert said.group(1) == "folded: 360 of 360, 0 out; open: 360 of 360, 0 out; filter: 1"


def test_a_script_that_is_not_its_own_does_not_run(page: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.html"
    text = page.read_text(encoding="utf-8")
    strange.write_text(text.replace("</main>", "<script>document.title = 'taken'</script></main>"), encoding="utf-8")
    ran = browse("--virtual-time-budget=5000", "--dump-dom", page=strange, folder=tmp_path)
    assert "<title>taken</title>" not in ran.stdout
    assert any("Content Security Policy" in line for line in console(ran))  # and console() sees what is said


def test_prints(page: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.pdf"
    ran = browse(f"--print-to-pdf={out}", "--no-pdf-header-footer", page=page, folder=tmp_path)
    assert console(ran) == []
    data = out.read_bytes()
    assert data.startswith(b"%PDF-")
    # What is folded on the screen is on paper: 285 clauses take more than a few pages.
    assert data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") > 12
