"""An envelope without what the model had to say."""

from __future__ import annotations

from typing import Any, Final, cast

__all__ = ["project_metadata"]

_CONTENT: Final = "content"
_RESULTS: Final = "results"


def project_metadata(value: Any) -> Any:
    """A copy of a dict without `content`, at the top and in each dict of a `results` list.

    Any other value is returned as it is. Doing it again changes nothing, and `value` is never changed. What is left
    shares its parts with `value`.
    """
    if not isinstance(value, dict):
        return value
    table = _without_content(cast("dict[Any, Any]", value))
    results = table.get(_RESULTS)
    if isinstance(results, list):
        items = cast("list[Any]", results)
        table[_RESULTS] = [
            _without_content(cast("dict[Any, Any]", item)) if isinstance(item, dict) else item for item in items
        ]
    return table


def _without_content(table: dict[Any, Any]) -> dict[Any, Any]:
    return {key: item for key, item in table.items() if key != _CONTENT}
