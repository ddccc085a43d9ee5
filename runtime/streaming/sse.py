"""Events of a run as server-sent events, from any event on, until the run ends."""

import time
from collections.abc import AsyncIterator, Iterator
from uuid import UUID

import orjson
from django.http import StreamingHttpResponse

from runtime.models.runs import Run
from runtime.streaming.feed import feed
from runtime.streaming.readers import StreamReader
from runtime.streaming.reading import Seen, read_events

PING_SECONDS = 15.0
TICK_SECONDS = 1.0  # so often the web server can see that a reader is gone, or that it is to stop itself
RETRY_MILLISECONDS = 1_000
LIVE = {status.value for status in Run.LIVE}


class EventStream(StreamingHttpResponse):
    """A response that lasts as long as its run, and its reader may follow it. It keeps no thread while it waits."""

    def __init__(self, run: Run, *, after: int, first: list[Seen], reader: StreamReader) -> None:
        self.holders = reader.holders
        events = (
            write_events(run.pk, after=after, first=first, reader=reader)
            if run.is_live
            else write_past_events(run.pk, first)
        )
        super().__init__(events, content_type="text/event-stream")
        self["Cache-Control"] = "no-store"
        # nginx would otherwise collect events before it passes them on.
        self["X-Accel-Buffering"] = "no"


async def write_events(run_id: UUID, *, after: int, first: list[Seen], reader: StreamReader) -> AsyncIterator[bytes]:
    """Write events as they come; b"" where none came for a second.

    Args:
        after: the last event that the reader has.
        first: those after it that were read already.
    """
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    for event in first:
        yield write_event(event)
        after = event.seq
        if is_last(event):
            return
    with feed.subscribe(run_id, after=after, reader=reader) as subscription:
        wrote_at = time.monotonic()
        while not subscription.is_over:
            events = await subscription.take(seconds=TICK_SECONDS)
            if not events:
                is_quiet = time.monotonic() - wrote_at > PING_SECONDS
                wrote_at = time.monotonic() if is_quiet else wrote_at
                yield b": ping\n\n" if is_quiet else b""
                continue
            for event in events:
                yield write_event(event)
                if is_last(event):
                    return
            wrote_at = time.monotonic()


def write_past_events(run_id: UUID, first: list[Seen]) -> Iterator[bytes]:
    """Write the events of a run that has ended, and those after its end: people may still say how a call went."""
    events = first
    while events:
        yield b"".join(map(write_event, events))
        events = read_events(run_id, after=events[-1].seq)


def write_event(event: Seen) -> bytes:
    """Write one event in the form of the HTML standard, §9.2. A part of an answer leaves the reader's position."""
    position = f"id: {event.seq}\n" if event.seq else ""
    return f"{position}event: {event.kind}\ndata: ".encode() + orjson.dumps(event.payload) + b"\n\n"


def is_last(event: Seen) -> bool:
    """Tell whether a run has ended with an event."""
    return event.kind == "run" and event.payload.get("status") not in LIVE
