"""The test kit: what an application's agents did, as spans, metrics, logs and records, and as a readable tree.

with capture() as seen:
    agent.run_sync("...")
assert seen.tree() == snapshot(...)
"""

from __future__ import annotations

from actionspan.testing._capture import Capture, capture
from actionspan.testing._tree import tree

__all__ = ["Capture", "capture", "tree"]
