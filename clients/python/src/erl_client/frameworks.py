"""What the modules for agent frameworks share: the run that a framework's agent is in."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from erl_client.calls import ModelCall
from erl_client.client import ERL, AsyncERL, leave
from erl_client.plain import as_plain
from erl_client.runs import Run, _current, current_run

log = logging.getLogger("erl_client")


@dataclass(kw_only=True, slots=True)
class Framework:
    """Opens and closes the runs of a framework's agents.

    An agent that works in the block of an open run is part of that run, and its block records it. Any other agent has
    a run of its own; so has one that works beside or inside another, with that one's run as its parent.
    """

    erl: ERL | AsyncERL
    family: str = ""
    agent: str = ""

    def begin(self, task: str) -> Run:
        run = current_run()
        if run is None or not run.claim():
            run = self.erl.begin(task, family=self.family, agent=self.agent)
            run.claim()
        return run

    async def begin_async(self, task: str) -> Run:
        run = current_run()
        if run is None or not run.claim():
            run = await self.erl.begin_async(task, family=self.family, agent=self.agent)
            run.claim()
        return run

    def end(self, run: Run, error: BaseException | None = None) -> None:
        run.release()
        self.erl.end(run, error)


@contextmanager
def inside(run: Run | None) -> Iterator[None]:
    """Let code be in a run: its `current_run()` is this one, and agents that it starts are called by it."""
    if run is None:
        yield
        return
    token = _current.set(run)
    try:
        yield
    finally:
        leave(token)


def note_call(
    run: Run, messages: Sequence[Any], reply: Sequence[Any], *, tools: Sequence[Any] = (), error: str = ""
) -> None:
    """Add a call of a model to a run. Never raises: the agent goes on whatever its messages look like."""
    try:
        plain = [as_plain(list(part)) for part in (messages, reply, tools)]
        run.calls.add(ModelCall(request=plain[0], reply=plain[1], tools=plain[2], error=error))
    except Exception:
        log.debug("A call was not captured.", exc_info=True)
