"""A real browser, driven through its DevTools protocol: what people see of a page, and where."""

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from tests.support.tools import require
from tests.support.waiting import wait_for

# Nothing but the page: no updates, no telemetry, no first-run questions.
_QUIET = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
_START_S = 240.0
# How long a page may take on a busy machine until its scripts have shown what is waited for.
_PAGE_S = 240.0

# The boxes of the lines in which a text stands, where nothing cuts it off: of every element between
# the text and the page that hides what overflows, only the visible part counts.
_FIND = """
(text => {
  const flat = s => s.replace(/\\s+/g, ' ');
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!flat(node.data).includes(text) || !node.parentElement.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    let {left, right, top, bottom} = range.getBoundingClientRect();
    const full = right - left;
    for (let e = node.parentElement; e && e !== document.body; e = e.parentElement) {
      if (getComputedStyle(e).overflowX === 'visible') continue;
      const box = e.getBoundingClientRect();
      left = Math.max(left, box.left); right = Math.min(right, box.right);
    }
    const seen = Math.min(right, innerWidth) - Math.max(left, 0);
    found.push({is_wide: full - seen > 1, is_high: top < 0 || bottom > innerHeight});
  }
  return found;
})(%s)
"""


_CENTER = """
(text => {
  const found = [...document.querySelectorAll('body *')].filter(
    e => e.textContent.trim() === text && e.checkVisibility()).pop();
  if (!found) return null;
  found.scrollIntoView({block: 'nearest'});
  const box = found.getBoundingClientRect();
  return {x: box.left + box.width / 2, y: box.top + box.height / 2};
})(%s)
"""


class Page:
    """One tab of the browser."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._ids = itertools.count(1)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """One command of the DevTools protocol."""
        number = next(self._ids)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._connection.recv(timeout=_PAGE_S))
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer}"
                return cast("dict[str, Any]", answer["result"])

    def open(self, url: str, width_px: int, height_px: int = 900) -> None:
        """Show this address in a window of this size."""
        size = {"width": width_px, "height": height_px, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        # An address that differs in its fragment alone would not be loaded again.
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def text(self) -> str:
        """All text that the page shows."""
        return " ".join(str(self.evaluate("document.body ? document.body.innerText : ''")).split())

    def wait_for(self, *texts: str) -> None:
        """Wait until the page shows these texts."""

        def missing() -> list[str]:
            shown = self.text()
            return [text for text in texts if text not in shown]

        wait_for(lambda: not missing(), lambda: f"the page shows {missing()}: {self.text()}")

    def is_in_width(self, text: str) -> bool:
        """Can a text that the page shows be read without scrolling sideways?"""
        return any(not place["is_wide"] for place in self._places(text))

    def is_in_view(self, text: str) -> bool:
        """Can a text that the page shows be read without scrolling at all?"""
        return any(not place["is_wide"] and not place["is_high"] for place in self._places(text))

    def _places(self, text: str) -> list[dict[str, bool]]:
        found = self.evaluate(_FIND % json.dumps(text))
        assert found, f"the page does not show {text!r}: {self.text()}"
        return cast("list[dict[str, bool]]", found)

    def click(self, text: str) -> None:
        """Press the smallest element with this text, such as a tab."""
        place = self.evaluate(_CENTER % json.dumps(text))
        assert place, f"the page does not show {text!r}: {self.text()}"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)

    def screenshot(self, path: Path) -> None:
        """Save what the window shows."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A headless Chromium with one tab, while the context lasts."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    binary = require(found, "Chromium")
    process = subprocess.Popen(
        [binary, *_QUIET, f"--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with connect(_address(profile, process), max_size=None) as connection:
            yield Page(connection)
    finally:
        process.terminate()
        process.wait(timeout=_START_S)


def _address(profile: Path, process: subprocess.Popen[bytes]) -> str:
    """Where its first tab listens."""
    written, deadline = profile / "DevToolsActivePort", time.monotonic() + _START_S
    while not (written.exists() and written.read_text().count("\n")):
        assert process.poll() is None, f"Chromium ended with exit code {process.returncode}"
        assert time.monotonic() < deadline, "Chromium does not start"
        time.sleep(0.1)
    port = written.read_text().split("\n", 1)[0]
    tabs = httpx.get(f"http://127.0.0.1:{port}/json/list").json()
    return next(str(tab["webSocketDebuggerUrl"]) for tab in tabs if tab["type"] == "page")
