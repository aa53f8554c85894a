"""`actionspan replay`: a record sent to a tracing backend."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from actionspan.cli._command import Directory, JsonFlag, command, existing
from actionspan.cli._endpoint import check_reachable
from actionspan.cli._progress import at_work
from actionspan.cli._screen import NOTHING, Screen, fail, fail_nothing, print_json
from actionspan.cli._text import many, number
from actionspan.policy import AuditMode

__all__ = ["replay"]


@command
def replay(
    directory: Directory,
    otlp: Annotated[
        str,
        typer.Option(metavar="URL", help="http://localhost:4318, or grpc://localhost:4317 (https, grpcs: encrypted)."),
    ],
    from_call_id: Annotated[
        str | None, typer.Option("--from", metavar="CALL_ID", help="Begin with the first event of this call.")
    ] = None,
    shift_to_now: Annotated[
        bool, typer.Option("--shift-to-now", help="Move the record so that it ends now, under new ids.")
    ] = False,
    keep_ids: Annotated[bool, typer.Option("--keep-ids", help="Under the same ids, with --shift-to-now.")] = False,
    mode: Annotated[
        AuditMode, typer.Option(help="Below content, content and error texts stay here.")
    ] = AuditMode.CONTENT,
    rate: Annotated[float | None, typer.Option(metavar="N", help="At most so many spans a second.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header of each request. Repeatable.")
    ] = None,
    cursor: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Remember here how far it came, and go on from there.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Send the spans of a record to an OTLP endpoint, as they were.

    A backend may not find old spans by search (Tempo does not): that is what --shift-to-now is for. ACTIONSPAN_AUDIT
    holds here too.

    [bold]Examples[/]

      actionspan replay record --otlp http://localhost:4318
      actionspan replay record --otlp http://localhost:4318 --shift-to-now --mode metadata
    """
    check_reachable(otlp)
    from actionspan.recorder.otlp_replay import ReplayFailed, replay_to_otlp

    with at_work("sending") as say:
        try:
            report = replay_to_otlp(
                existing(directory),
                otlp,
                from_call_id=from_call_id,
                shift_to_now=shift_to_now,
                keep_ids=keep_ids,
                mode=mode,
                rate=rate,
                headers=dict(_header(item) for item in header or ()),
                cursor=cursor,
                progress=lambda report: say(f"{many(report.exported, 'span')} sent"),
            )
        except ReplayFailed as error:
            fail(f"{otlp} does not take the spans: {error}", NOTHING)
    if as_json:
        print_json(asdict(report))
        return
    if not report.exported and not report.rejected and not report.unreadable:
        fail_nothing(f"no spans to send in {directory}")
    screen = Screen()
    screen.line(f"{many(report.exported, 'span')} sent in {many(report.requests, 'request')}")
    if report.unfinished:
        screen.line(f"{number(report.unfinished)} of them never ended, and say so (actionspan.unfinished)")
    if report.rejected:
        screen.line(f"{many(report.rejected, 'span')} refused")
    if report.unreadable:
        screen.line(f"{many(report.unreadable, 'event')} left out: no span can be made of them")
    for message in report.messages:
        screen.line("the receiver said: ", screen.text(message))


def _header(item: str) -> tuple[str, str]:
    name, separator, value = item.partition("=")
    if not name or not separator:
        # The value may be a credential, so the message does not repeat it.
        raise ValueError("--header is not of the form NAME=VALUE")
    return name, value
