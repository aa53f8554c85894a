"""Which runs of a record to look at: the newest ones, or the one that somebody means."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from actionspan.cli._actions import ActionNode, Forest
from actionspan.cli._options import Conditions, Watch
from actionspan.recorder import Reader

__all__ = ["newest_runs", "no_runs", "one_run", "run_or_conditions"]

Events = Iterable[dict[str, Any]]


def newest_runs(
    reader: Reader,
    limit: int,
    watch: Watch,
    wanted: Conditions | None = None,
    *,
    keep: Watch | None = None,
    content: bool = False,
) -> Forest:
    """The actions of the traces whose runs are the newest; every action when there are no runs at all.

    With `wanted` the newest of the traces in which something satisfies it, each of them whole. `keep` watches in the
    place of `watch` what becomes part of the forest.
    """
    keep = keep or watch
    since: float | None = None
    if wanted:
        # When these began is not known: what satisfies may be in the middle of them.
        chosen = _newest_traces(wanted.events(reader, watch), limit)
    else:
        chosen = _newest_traces(watch(reader.query(kind="agent.*")), limit)
        chosen = chosen or _newest_traces(watch(reader.query()), limit)
        since = min(chosen.values(), default=0) / 1e9 - 1e-3
    if not chosen:
        return Forest(())
    events = reader.query(since=since, extra_filter=lambda event: event.get("trace_id") in chosen)
    return Forest(keep(events), content=content)


def one_run(reader: Reader, wanted: str, watch: Watch, *, content: bool = False) -> list[ActionNode]:
    """The run, or the runs of the trace, that `wanted` identifies: any of its ids, or the beginning of one."""
    traces = {event["trace_id"] for event in watch(_candidates(reader, wanted)) if "trace_id" in event}
    if not traces:
        return []
    if len(traces) > 1:
        raise ValueError(f"{wanted!r} is the beginning of {len(traces)} runs: give more of it")
    forest = Forest(watch(reader.query(extra_filter={"trace_id": traces.pop()})), content=content)
    meant = [node for root in forest.roots for _, node in root.walk() if _identified(node, wanted)]
    outermost = [node for node in meant if not any(above in meant for above in _above(node))]
    return outermost or forest.roots


def run_or_conditions(run: str | None, wanted: Conditions) -> None:
    """`ValueError` for both: one run is named by its id, and conditions choose among all."""
    if run is not None and wanted:
        raise ValueError("--run names one run: conditions choose among all of them")


def no_runs(directory: Path, run: str | None, wanted: Conditions) -> str:
    """Why there is nothing to show."""
    if run is not None:
        return f"no run {run} in {directory}"
    return f"nothing in {directory} satisfies that" if wanted else f"no actions in {directory}"


def _newest_traces(events: Events, limit: int) -> dict[str, int]:
    """The traces that were active last, with the time they began."""
    traces: OrderedDict[str, int] = OrderedDict()
    for event in events:
        trace_id = event.get("trace_id")
        if not isinstance(trace_id, str) or "action_id" not in event:
            continue
        start = event.get("start_time_unix_nano")
        begun = min(
            traces.get(trace_id, event["time_unix_nano"]), start if type(start) is int else event["time_unix_nano"]
        )
        traces[trace_id] = begun
        traces.move_to_end(trace_id)
        if len(traces) > limit:
            traces.popitem(last=False)
    return traces


def _candidates(reader: Reader, wanted: str) -> Events:
    """Events with that id: an action's by search; else whatever begins like it."""
    exact = next(reader.query(call_id=wanted), None)
    if exact is not None:
        return [exact]
    hexadecimal = wanted.replace("-", "")
    return reader.query(
        kind="agent.*",
        extra_filter=lambda event: (
            any(str(event.get(field, "")).startswith(wanted) for field in ("action_id", "run_id", "span_id"))
            or str(event.get("trace_id", "")).startswith(hexadecimal)
        ),
    )


def _identified(node: ActionNode, wanted: str) -> bool:
    return any((identity or "").startswith(wanted) for identity in (node.action_id, node.run_id, node.span_id)) and (
        node.is_run or node.action_id == wanted
    )


def _above(node: ActionNode) -> Iterator[ActionNode]:
    while node.parent is not None:
        node = node.parent
        yield node
