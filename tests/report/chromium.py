"""A headless Chromium, spoken to over pipes in the DevTools protocol: no port, no network, no further package."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOUND = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome", "chrome") if (path := shutil.which(name))), None
)

_PATIENCE = 60
"""Seconds until a browser that says nothing is given up."""
_OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-pipe",
]
# Chromium reads commands from descriptor 3 and answers on 4; they are brought there in a process of its own.
_START = """
import fcntl, os, sys
reads, writes = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Page:
    """A tab of its own browser. `events` has all that the browser said by itself."""

    def __init__(self, profile: Path) -> None:
        assert FOUND is not None
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        command = [FOUND, *_OPTIONS, f"--user-data-dir={profile}", "--window-size=1400,900", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(theirs_in), str(theirs_out), *command],
            pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        self._unread = b""
        self._sent = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self.call("Browser.close")
        self._process.wait(timeout=20)
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": parameters}
        message |= {} if self._session is None else {"sessionId": self._session}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._sent:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, path: Path, fragment: str = "") -> None:
        """Load the page from disk, from nothing."""
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri() + fragment)
        self._until(lambda event: event.get("method") == "Page.loadEventFired")

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; what it throws fails the test. Promises are waited for."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def text(self, selector: str) -> str:
        """What can be read there, in one line."""
        return " ".join(str(self.js(f"document.querySelector({json.dumps(selector)}).innerText")).split())

    def texts(self, selector: str) -> list[str]:
        found = self.js(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText)")
        return [" ".join(text.split()) for text in found]

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys where the focus is, and wait until what they cause is drawn."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {}
            common = {"key": key, "modifiers": 8 if shift else 0, **_CODES.get(key, {})}
            self.call("Input.dispatchKeyEvent", type="keyDown", **common, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **common)
        self.drawn()

    def drawn(self) -> None:
        """Two frames: scrolling has been told of, and answered."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def requests(self) -> list[str]:
        """What was asked for since the page was opened."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """Errors of the script and refusals of the security policy."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in kinds]

    def _until(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        while True:
            event = self._next()
            self.events.append(event)
            if wanted(event):
                return

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            assert select.select([self._in], [], [], _PATIENCE)[0], "the browser does not answer"
            chunk = os.read(self._in, 1 << 16)
            assert chunk, "the browser is gone"
            self._unread += chunk
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)


_CODES: dict[str, dict[str, Any]] = {
    "ArrowDown": {"windowsVirtualKeyCode": 40}, "ArrowUp": {"windowsVirtualKeyCode": 38},
    "ArrowLeft": {"windowsVirtualKeyCode": 37}, "ArrowRight": {"windowsVirtualKeyCode": 39},
    "End": {"windowsVirtualKeyCode": 35}, "Home": {"windowsVirtualKeyCode": 36},
    "Enter": {"windowsVirtualKeyCode": 13}, "Tab": {"windowsVirtualKeyCode": 9},
    "Escape": {"windowsVirtualKeyCode": 27},
}  # fmt: skip
