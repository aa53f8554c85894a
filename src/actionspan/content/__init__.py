"""Content made fit to leave: a bounded snapshot of any value, redacted, as JSON.

`ActionContent` is what the rest of the package uses; `snapshot` and `to_json` are its two ends.
"""

from __future__ import annotations

from actionspan.content._action import ActionContent
from actionspan.content._budget import Budget
from actionspan.content._json import to_json
from actionspan.content._snapshot import snapshot

__all__ = ["ActionContent", "Budget", "snapshot", "to_json"]
