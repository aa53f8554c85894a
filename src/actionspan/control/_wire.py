"""What is said over the socket: one JSON object a line, each way."""

from __future__ import annotations

import hmac
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from actionspan._json import UNDECODABLE
from actionspan.control.contract import ControlVerb, Priority
from actionspan.control.errors import ControlError
from actionspan.control.receipts import Receipt

if TYPE_CHECKING:
    from actionspan.control.controller import RunControl

__all__ = ["MAX_LINE", "MAX_WAIT", "RUNS", "VERSION", "Request", "answer", "refusal"]

VERSION: Final = 1
MAX_LINE: Final = 64 * 1024
"""Bytes of one line, its end included."""
MAX_WAIT: Final = 60.0
"""Seconds that a request may ask to wait for its receipt to settle."""
RUNS: Final = "runs"
"""The one request that changes nothing, and needs no token."""


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One request. What does not concern its verb is passed over."""

    v: int
    verb: str
    token: str | None = None
    agent_id: str | None = None
    reason: str | None = None
    label: str | None = None
    directive: str | None = None
    priority: Priority = "normal"
    now: bool = False
    checkpoint_id: str | None = None
    wait: float = 0.0
    """Seconds to wait for the receipt to settle, at most 60."""


_decoder: Final = msgspec.json.Decoder(Request)


def answer(control: RunControl, line: bytes, token: str) -> bytes:
    """The line that answers `line`; what is wrong with it is an error line, never an exception of ours to the peer."""
    try:
        request = _decoder.decode(line)
        if request.v != VERSION:
            return refusal(f"this process speaks version {VERSION}, not {request.v}")
        if request.verb == RUNS:
            return _said({"runs": [asdict(status) for status in control.status()]})
        if not hmac.compare_digest((request.token or "").encode(), token.encode()):
            return refusal("the token is missing or not the one in the token file")
        receipt = _performed(control, request)
        if request.wait > 0:
            receipt.wait(min(request.wait, MAX_WAIT))
        return _said({"receipt": receipt.as_dict()})
    except (msgspec.MsgspecError, *UNDECODABLE, ValueError, ControlError) as error:
        return refusal(f"{type(error).__name__}: {error}")


def _performed(control: RunControl, request: Request) -> Receipt:
    who = request.agent_id
    match request.verb:
        case ControlVerb.PAUSE:
            return control.pause(request.reason, who)
        case ControlVerb.RESUME:
            return control.resume(who)
        case ControlVerb.ABORT:
            return control.abort(request.reason, who, now=request.now)
        case ControlVerb.STEER:
            return control.steer(request.directive or "", who, request.priority)
        case ControlVerb.CHECKPOINT:
            return control.checkpoint(request.label, who)
        case ControlVerb.RESTORE:
            return control.restore_checkpoint(request.checkpoint_id or "").receipt
        case _:
            raise ValueError(f"there is no verb {request.verb!r}")


def refusal(message: str) -> bytes:
    """An error line."""
    return msgspec.json.encode({"v": VERSION, "ok": False, "error": message}) + b"\n"


def _said(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"v": VERSION, "ok": True, **fields}) + b"\n"
