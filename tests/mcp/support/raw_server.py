"""A server written by hand, which does to a `tools/call` what its first argument says. It needs nothing installed.

answer, die (in mid-call), garbage (lines that are no JSON, then an answer), wrong (a result of another shape), error (a
JSON-RPC error), silent (no answer), mute (not even to the handshake); it says on stderr when a call has arrived.
"""

from __future__ import annotations

import json
import os
import sys

behaviour = sys.argv[1]


def send(message: dict) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def called(number: object) -> None:
    print("called", file=sys.stderr, flush=True)
    if behaviour == "die":
        os._exit(3)
    if behaviour == "silent":
        return
    if behaviour == "error":
        error = {"code": -32050, "message": "text of the server", "data": {"hint": "data of the server"}}
        send({"id": number, "error": error})
        return
    if behaviour == "wrong":
        send({"id": number, "result": {"content": "text of the server"}})
        return
    if behaviour == "garbage":
        sys.stdout.write('this is no JSON\n{"half": \n')
        sys.stdout.flush()
    send({"id": number, "result": {"content": [{"type": "text", "text": "done"}], "isError": False}})


for line in sys.stdin:
    request = json.loads(line)
    method, number = request.get("method"), request.get("id")
    if behaviour == "mute":
        continue
    if method == "initialize":
        info = {"name": "raw", "version": "1"}
        version = request["params"]["protocolVersion"]
        send({"id": number, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
    elif method == "tools/list":
        send({"id": number, "result": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        called(number)
    elif number is not None:
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
