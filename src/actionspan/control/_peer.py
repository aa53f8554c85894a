"""Who is at the other end of a Unix socket, as the kernel says."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Final

__all__ = ["peer_uid", "same_user"]

_UCRED: Final = struct.Struct("3i")
"""Linux `struct ucred`: pid, uid, gid."""
_XUCRED: Final = struct.Struct("2I")
"""The beginning of macOS `struct xucred`: version, uid."""
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1


def peer_uid(connection: socket.socket) -> int | None:
    """The user who connected, or listened; None where the kernel does not say."""
    try:
        if sys.platform == "linux":
            data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
            return _UCRED.unpack(data)[1]
        data = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 76)
        return _XUCRED.unpack_from(data)[1]
    except (OSError, struct.error):
        return None


def same_user(connection: socket.socket) -> bool:
    """Whether the other end belongs to the user of this process."""
    return peer_uid(connection) == os.geteuid()
