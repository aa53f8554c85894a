"""docs/images/report.png: the page of `make report-demo`, its longest run and a model request of it in a browser."""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from report.chromium import Page  # noqa: E402 # the tests' own browser

WIDTH, HEIGHT = 1500, 900


def main() -> None:
    page = Page(Path(tempfile.mkdtemp(prefix="report-image-")))
    try:
        page.call("Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        page.call("Emulation.setScrollbarsHidden", hidden=True)
        page.open(ROOT / "report.html")
        page.js("document.getElementById('runs').focus()")
        page.press("End", "Enter")  # the oldest run is the longest, and now its actions have the focus
        for _ in range(2):
            page.press("ArrowDown")
            while not page.text("#timeline .row.chosen .label").endswith("chat scripted"):
                page.press("ArrowDown")
        page.js("document.activeElement.blur()")
        page.drawn()
        image = base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"])
    finally:
        page.close()
    target = ROOT / "docs" / "images" / "report.png"
    target.write_bytes(image)
    print(f"{target.relative_to(ROOT)}: {len(image):,} bytes")


if __name__ == "__main__":
    main()
