"""Pictures of the report for the documentation, made by a browser from a certificate of the registry.

    python docs/screenshots.py [PACKAGE] [--to DIR]

The package is judged again by the installed product and its page written anew, so that the pictures show the report of
today, stale marks too. Needs a Chromium on PATH; without one it says so and leaves with 0. Pillow, which comes with
matplotlib (extra ``report``), makes the pictures small.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "conformance_tests" / "registry" / "cuda" / "h200-2026-11-30"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

#: A clone has every picture: none may be larger.
LIMIT_BYTES = 150_000

#: Colours that a picture keeps: the page has few, and edges of letters.
_COLOURS = 160


@dataclass(frozen=True)
class Shot:
    """One picture: its name, the size of the window, the part of the page at its top (a selector), light or dark."""

    name: str
    width: int
    height: int
    part: str = ""
    dark: bool = False


#: The fold with the clauses of L4: on the page's own device some are inconclusive.
_LEVEL_4 = "details.level:nth-of-type(5)"

SHOTS = (
    Shot("report-desktop.png", 1280, 1000),
    Shot("report-desktop-clauses.png", 1280, 900, f"#clauses {_LEVEL_4}"),
    Shot("report-desktop-litmus.png", 1280, 700, "#litmus"),
    Shot("report-phone.png", 390, 844),
    Shot("report-phone-clauses.png", 390, 844, f"#clauses {_LEVEL_4}"),
    Shot("report-phone-dark.png", 390, 844, "#ladder", dark=True),
)

#: The page is shown in a frame: a browser's own window is never as narrow as a phone. The frame's owner scrolls it.
_FRAME = """<!doctype html><meta charset="utf-8"><style>html, body {{ margin: 0; overflow: hidden; }}</style>
<iframe width="{width}" height="{height}" style="border: 0; display: block; color-scheme: {scheme}"></iframe>
<script>
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {{
  const part = "{part}" && frame.contentDocument.querySelector("{part}");
  if (part) {{
    const fold = part.matches("details") ? part : part.querySelector("details");
    if (fold) fold.open = true;
    frame.contentWindow.scrollTo(0, part.getBoundingClientRect().top - 12);
  }}
}});
frame.src = "{page}";
</script>
"""


def take(browser: str, page: Path, shot: Shot, to: Path) -> Path:
    """Take one picture and make it small.

    Raises:
        RuntimeError: the browser wrote none, or it is too large.
    """
    with tempfile.TemporaryDirectory(prefix="tutti-shot-") as scratch:
        frame, raw = Path(scratch, "frame.html"), Path(scratch, "raw.png")
        scheme = "dark" if shot.dark else "light"
        frame.write_text(
            _FRAME.format(width=shot.width, height=shot.height, part=shot.part, page=page.as_uri(), scheme=scheme),
            encoding="utf-8",
        )
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        words += ["--allow-file-access-from-files", "--force-device-scale-factor=1", "--virtual-time-budget=20000"]
        words += [f"--user-data-dir={scratch}/profile", f"--window-size={max(shot.width, 500)},{shot.height}"]
        if shot.dark:
            words += ["--blink-settings=preferredColorScheme=0"]
        done = subprocess.run(
            [*words, f"--screenshot={raw}", frame.as_uri()], check=False, capture_output=True, text=True, timeout=300
        )
        if not raw.is_file():
            raise RuntimeError(f"{browser} wrote no picture: {done.stderr[-500:]}")
        path = to / shot.name
        _small(raw, path, shot)
    if path.stat().st_size > LIMIT_BYTES:
        raise RuntimeError(f"{path}: {path.stat().st_size} bytes, and a picture may have {LIMIT_BYTES}")
    return path


def _small(raw: Path, path: Path, shot: Shot) -> None:
    """Cut to the frame, few colours."""
    from PIL import Image

    with Image.open(raw) as picture:
        cut = picture.convert("RGB").crop((0, 0, shot.width, shot.height))
        cut.quantize(_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def page_of(package: Path, to: Path) -> Path:
    """The report of a package as today's product writes it.

    Raises:
        RuntimeError: the package is refused.
    """
    page = to / "report.html"
    words = [sys.executable, "-m", "tutti_hal", "verify", str(package), "--report", str(page)]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode or not page.is_file():
        raise RuntimeError(f"{package} is refused:\n{done.stdout}{done.stderr}")
    return page


def main(argv: Sequence[str] | None = None) -> int:
    """Make all pictures; 0 also where there is no browser, which is said."""
    parser = argparse.ArgumentParser(prog="screenshots", description="Pictures of the report for the documentation.")
    parser.add_argument("package", nargs="?", type=Path, default=PACKAGE, metavar="PACKAGE")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "pictures", metavar="DIR")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a report that is already written")
    args = parser.parse_args(argv)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"screenshots: skipped: none of {', '.join(BROWSERS)} is on PATH")
        return 0
    args.to.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="tutti-report-") as scratch:
            page = args.page or page_of(args.package, Path(scratch))
            for shot in SHOTS:
                path = take(browser, page.resolve(), shot, args.to)
                print(f"{path}: {path.stat().st_size} bytes")
    except (ImportError, RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"screenshots: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
