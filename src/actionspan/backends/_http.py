"""GET requests to a backend's query API, with errors that say whose, which and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast
from urllib.parse import urlsplit

import msgspec
import requests
from requests.adapters import HTTPAdapter
from urllib3 import Retry

from actionspan._json import UNDECODABLE
from actionspan.backends._report import BackendReport
from actionspan.backends.errors import AnswerTooLarge, BackendError
from actionspan.settings import read_settings

__all__ = ["Answer", "QueryClient", "base_url", "excerpt"]

MAX_ANSWER: Final = 256 * 2**20
"""Bytes of one answer, decompressed."""
_BLOCK: Final = 2**20
_BUSY: Final = (429, 502, 503, 504)
"""Statuses that are worth asking again."""
_ATTEMPTS_AFTER_BUSY: Final = 3
_PAUSE: Final = 0.1
"""Seconds before the second repetition, doubled for each further one."""
_LONGEST_EXCERPT: Final = 300


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, whole."""

    url: str
    """What was asked, without parameters."""
    status: int
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body decoded; `BackendError` when it is no JSON, or no object."""
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except msgspec.ValidationError:
            raise self.unknown() from None
        except UNDECODABLE:
            raise BackendError(
                f"GET {self.url} answered what is not JSON: is this the backend's query port? {excerpt(self.body)}"
            ) from None

    def unknown(self) -> BackendError:
        """The error that says that the answer is JSON of a form that is not the backend's."""
        return BackendError(f"GET {self.url} answered JSON of another form than this API's: {excerpt(self.body)}")

    def refused(self) -> BackendError:
        """The error that says what came instead of an answer."""
        return BackendError(f"GET {self.url} answered {self.status}: {excerpt(self.body)}")


class QueryClient:
    """One backend's query API. `headers` default to `ACTIONSPAN_QUERY_HEADERS`; `timeout` in seconds of silence."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None,
        timeout: float,
        report: BackendReport,
    ) -> None:
        if not timeout > 0:
            raise ValueError(f"timeout_seconds must be positive, not {timeout!r}")
        self.url = url
        self._timeout = timeout
        self._report = report
        self._session = requests.Session()
        self._session.headers["Accept"] = "application/json"
        self._session.headers.update(dict(read_settings().query_headers) if headers is None else dict(headers))
        # Without an authentication of its own, requests takes one from ~/.netrc and puts it in place of our header.
        self._session.auth = _leave
        busy = Retry(
            total=_ATTEMPTS_AFTER_BUSY, connect=0, read=0, other=0, status=_ATTEMPTS_AFTER_BUSY,
            status_forcelist=_BUSY, backoff_factor=_PAUSE, raise_on_status=False, respect_retry_after_header=False,
        )  # fmt: skip
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=busy))

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Answer:
        """The answer, whatever its status; `BackendError` when there is none, `AnswerTooLarge` when there is no end."""
        url = self.url + path
        self._report.requests += 1
        try:
            # Not followed: headers that are not `Authorization` would go wherever a redirection points.
            with self._session.get(
                url, params=parameters, timeout=self._timeout, stream=True, allow_redirects=False
            ) as response:
                if 300 <= response.status_code < 400:
                    place = response.headers.get("Location", "nowhere")
                    raise BackendError(
                        f"GET {url} points elsewhere ({place[:_LONGEST_EXCERPT]!r}): give that URL instead"
                    )
                return Answer(url, response.status_code, self._body(url, response))
        except requests.RequestException as error:
            raise BackendError(self._trouble(url, error)) from None

    def close(self) -> None:
        """Give the connections back."""
        self._session.close()

    def _body(self, url: str, response: requests.Response) -> bytes:
        body = bytearray()
        for block in cast("list[bytes]", response.iter_content(_BLOCK)):
            body += block
            if len(body) > MAX_ANSWER:
                raise AnswerTooLarge(f"GET {url} answered more than {MAX_ANSWER} bytes")
        return bytes(body)

    def _trouble(self, url: str, error: requests.RequestException) -> str:
        """In our words: those of the libraries below us may quote headers."""
        if isinstance(error, requests.Timeout) or "Read timed out" in str(error):
            return f"GET {url} got no answer within {self._timeout:g} seconds"
        if isinstance(error, requests.exceptions.SSLError):
            return f"GET {url} failed: the server's certificate or TLS is not acceptable"
        if isinstance(error, requests.exceptions.InvalidHeader):
            return f"GET {url} was not sent: a header has a name or value that HTTP does not permit"
        if isinstance(error, requests.ConnectionError):
            return f"GET {url} failed: no connection, or it was cut"
        return f"GET {url} failed: {type(error).__name__}"


def base_url(url: str, example: str) -> str:
    """`url` without a slash at its end. `ValueError`: it is no http(s) URL, or holds more than where the API is."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        # Not repeated: it has a password in it.
        raise ValueError(
            "a backend's URL has no user or password in it: credentials go in headers= or ACTIONSPAN_QUERY_HEADERS"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the http or https URL of a query API, such as {example}")
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} has a query or fragment: give only where the API is, such as {example}")
    return url.rstrip("/")


def excerpt(body: bytes) -> str:
    """The beginning of an error's text, on one line."""
    text = " ".join(body[: 4 * _LONGEST_EXCERPT].decode(errors="replace").split())
    return text[:_LONGEST_EXCERPT] if text else "(nothing)"


def _leave(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request
