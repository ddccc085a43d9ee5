"""The client that an agent holds: lessons before a run, and the record of the run when its block ends."""

import asyncio
import atexit
import functools
import inspect
import logging
import os
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Token
from pathlib import Path
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from erl_client.api import Api, ERLError, Unavailable
from erl_client.credentials import find_destination
from erl_client.outbox import Outbox
from erl_client.plain import MAX_NAME_CHARS, MAX_TEXT_CHARS, as_text, cut
from erl_client.runs import Run, _current
from erl_client.spool import Spool, spool_folder
from erl_client.wrap import capture_calls

log = logging.getLogger("erl_client")

BUDGET_SECONDS = 2.0
SENDING_TIMEOUT_SECONDS = 30.0
MAX_BEGUN = 1_000

P = ParamSpec("P")
T = TypeVar("T")


class _Client:
    """What the sync and the async client have in common."""

    def __init__(
        self,
        url: str = "",
        api_key: str = "",
        *,
        agent: str = "",
        user_id: str = "",
        strict: bool = False,
        budget_seconds: float | None = None,
        spool: str | Path = "",
    ) -> None:
        """Read `ERL_URL` and `ERL_API_KEY` where they are not given, or else what `erl login` stored.

        `user_id` is your own id of the end user of runs that name none: `ERL_USER_ID`, or else none.
        `strict` raises ERLError where something goes wrong. `budget_seconds` is how long an agent waits for lessons,
        and a process that ends for its last runs: `ERL_BUDGET_SECONDS`, or else 2. `spool` is the folder of runs that
        wait for ERL.
        """
        self.agent = agent
        self.user_id = user_id or os.environ.get("ERL_USER_ID", "")
        self.strict = strict
        self.budget_seconds = _budget() if budget_seconds is None else budget_seconds
        self.destination = find_destination(url, api_key)
        if not self.destination.api_key:
            self._fail(ERLError("Set ERL_API_KEY, or run `erl login`: without a key there are no lessons."))
        self.api = Api(self.destination, timeout_seconds=SENDING_TIMEOUT_SECONDS)
        self.spool = Spool(Path(spool) if spool else spool_folder(self.destination))
        self._outbox = Outbox(self.api, self.spool)
        self._no_lessons_before = 0.0
        self._open_runs: weakref.WeakValueDictionary[str, Run] = weakref.WeakValueDictionary()
        self._begun: dict[str, Run] = {}  # without a block, in order
        if not self.spool.is_empty():  # of an earlier process
            self._outbox.start()
        self._at_exit = _close_at_exit(self)

    def wrap(self, client: T) -> T:
        """Return the same OpenAI or Anthropic client, whose calls are from now on captured by the run they are in."""
        try:
            capture_calls(client)
        except Exception as error:
            self._fail(ERLError(f"Calls to {type(client).__name__} cannot be captured: {error}"))
        return client

    def context(self) -> str:
        """Return the lessons of the run whose block this code is in, "" outside of one."""
        run = _current.get()
        return run.context if run else ""

    def begin(self, task: str, *, family: str = "", agent: str = "", user_id: str = "") -> Run:
        """Open a run where there is no place for a block, as in the hooks of a framework. Close it with `end()`."""
        run = self._begin(task, {"family": family, "agent": agent, "user_id": user_id})
        self._fetch(run)
        return run

    async def begin_async(self, task: str, *, family: str = "", agent: str = "", user_id: str = "") -> Run:
        """Do the same without holding up other tasks."""
        run = self._begin(task, {"family": family, "agent": agent, "user_id": user_id})
        await self._fetch_async(run)
        return run

    def end(self, run: Run, error: BaseException | None = None) -> None:
        """Record a run that `begin` opened, with the exception that ended it, if one did. Once is enough."""
        if self._begun.pop(run.external_id, None) is None:
            return
        if error is not None:
            run.end_with(error)
        self._keep(run)

    def _begin(self, task: str, options: Mapping[str, Any]) -> Run:
        run = self._open(task, options)
        self._begun[run.external_id] = run
        if len(self._begun) > MAX_BEGUN:  # what never ended is recorded as far as it came
            self.end(list(self._begun.values())[0])  # noqa: RUF015 - another thread may change the dict meanwhile
        return run

    def _fetch(self, run: Run) -> None:
        try:
            if answer := self._ask(run):
                self._take(run, answer.result(self.budget_seconds))
        except Exception as error:
            self._without_lessons(error)

    async def _fetch_async(self, run: Run) -> None:
        try:
            if answer := self._ask(run):
                lessons = await asyncio.wait_for(asyncio.wrap_future(answer), self.budget_seconds)
                self._take(run, lessons)
        except Exception as error:
            self._without_lessons(error)

    def _close(self) -> None:
        for run in list(self._begun.values()):
            self.end(run)
        atexit.unregister(self._at_exit)
        self._outbox.close(self.budget_seconds)
        self.api.close()

    def _fail(self, error: Exception) -> None:
        """Raise where the agent wants to know, else leave a line in the log."""
        if self.strict:
            raise error if isinstance(error, ERLError) else ERLError(str(error)) from error
        log.warning("%s", error)

    def _open(self, task: str, options: Mapping[str, Any], *, parent_id: str | None = "") -> Run:
        caller = _current.get()
        if parent_id == "" and caller is not None and caller.external_id in self._open_runs:
            parent_id = caller.external_id
        run = Run(
            str(task),
            family=options.get("family", ""),
            agent=options.get("agent", "") or self.agent,
            user_id=options.get("user_id", "") or (caller.user_id if caller else "") or self.user_id,
            external_id=options.get("external_id", ""),
            parent_id=parent_id or "",
        )
        run.tags = list(options.get("tags", ()))
        self._open_runs[run.external_id] = run
        return run

    def _ask(self, run: Run) -> "Future[dict[str, Any]] | None":
        """Ask for lessons in a thread, which an agent need not wait for; None while ERL wants no requests."""
        if not self.destination.api_key or not run.task.strip() or time.monotonic() < self._no_lessons_before:
            return None
        question = {
            "task": cut(as_text(run.task), MAX_TEXT_CHARS),
            "task_id": as_text(run.family)[:MAX_NAME_CHARS],
            "agent": as_text(run.agent)[:MAX_NAME_CHARS],
        }
        answer: Future[dict[str, Any]] = Future()

        def ask() -> None:
            answer.set_running_or_notify_cancel()  # from now on nobody can cancel it
            try:
                answer.set_result(self.api.post("/retrieve", question, timeout_seconds=self.budget_seconds))
            except BaseException as error:
                answer.set_exception(error)

        Thread(target=ask, name="erl-lessons", daemon=True).start()
        return answer

    def _take(self, run: Run, answer: Mapping[str, Any]) -> None:
        context, retrieval_id, items = answer.get("context"), answer.get("retrieval_id"), answer.get("items")
        if not isinstance(context, str) or not isinstance(items, list):
            raise Unavailable("The server at ERL's address returned no lessons; check ERL_URL.")
        run.context = context
        run.retrieval_id = retrieval_id if isinstance(retrieval_id, str) else None
        run.lessons = [item for item in items if isinstance(item, dict)]

    def _without_lessons(self, error: BaseException) -> None:
        if isinstance(error, Unavailable) and error.retry_after_seconds is not None:
            self._no_lessons_before = time.monotonic() + error.retry_after_seconds
        if isinstance(error, (TimeoutError, asyncio.TimeoutError, FutureTimeout)):
            error = Unavailable(f"ERL had no lessons within {self.budget_seconds:g} seconds.")
        self._fail(error if isinstance(error, Exception) else ERLError(str(error)))

    def _keep(self, run: Run) -> None:
        """Write the run down, and let it be sent."""
        if not self.destination.api_key:
            return
        try:
            bodies, caller = run.end(), self._open_runs.get(run.parent_id)
            if caller is not None and caller.hold(bodies):
                return
            for body in bodies:
                self._outbox.put(body)
        except Exception as error:
            self._fail(ERLError(f"The run cannot be recorded: {type(error).__name__}: {error}"))

    def _check_recorded(self, seconds: float) -> None:
        """Raise where a strict agent's run is not recorded yet. It waits on disk."""
        self._outbox.last_error = None
        done = self._outbox.flush(seconds, patient=False)
        if self._outbox.last_error is not None:
            raise self._outbox.last_error
        if not done:
            raise Unavailable(f"ERL did not record the run within {seconds:g} seconds.")


class ERL(_Client):
    """Lessons and the record of runs for an agent that does not use asyncio.

        erl = ERL()
        with erl.run(task, family="airline") as run:
            ...

    Nothing here raises or keeps the agent waiting for longer than its budget, unless `strict` is true.
    """

    @contextmanager
    def run(
        self,
        task: str,
        *,
        family: str = "",
        agent: str = "",
        user_id: str = "",
        tags: tuple[str, ...] = (),
        external_id: str = "",
        parent_id: str | None = "",
    ) -> Iterator[Run]:
        """Open a run: lessons are there when the block begins, and it is recorded when the block ends.

        A run inside the block of another is called by that one. `parent_id` names another caller, None none. `user_id`
        is your own id of the end user, to filter by and to erase a person by; a called run has its caller's.
        """
        options = {"family": family, "agent": agent, "user_id": user_id, "tags": tags, "external_id": external_id}
        run = self._open(task, options, parent_id=parent_id)
        self._fetch(run)
        token = _current.set(run)
        try:
            yield run
        except BaseException as error:
            leave(token)
            run.end_with(error)
            self._keep(run)
            raise
        leave(token)
        self._keep(run)
        if self.strict:
            self._check_recorded(SENDING_TIMEOUT_SECONDS)

    def learns(self, *, family: str = "", agent: str = "") -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Make each call of a function a run. The task is its parameter `task`, or else its first argument.

        In the function, `erl.context()` has the lessons and `current_run()` the run.
        """

        def decorate(function: Callable[P, T]) -> Callable[P, T]:
            if inspect.iscoroutinefunction(function):
                raise TypeError("Use AsyncERL for async functions.")

            @functools.wraps(function)
            def learning(*args: P.args, **kwargs: P.kwargs) -> T:
                with self.run(_find_task(function, args, kwargs), family=family, agent=agent) as run:
                    result = function(*args, **kwargs)
                    _answer(run, result)
                    return result

            return learning

        return decorate

    def flush(self, seconds: float = 10.0) -> bool:
        """Wait until all runs are recorded, and tell whether they are. What is not yet stays on disk."""
        return self._outbox.flush(seconds)

    def close(self) -> None:
        """Give the last runs a moment to be recorded. Happens by itself when the process ends."""
        self._close()

    def __enter__(self) -> "ERL":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class AsyncERL(_Client):
    """The same for an agent that uses asyncio: `async with erl.run(task) as run`."""

    @asynccontextmanager
    async def run(
        self,
        task: str,
        *,
        family: str = "",
        agent: str = "",
        user_id: str = "",
        tags: tuple[str, ...] = (),
        external_id: str = "",
        parent_id: str | None = "",
    ) -> AsyncIterator[Run]:
        """Open a run: lessons are there when the block begins, and it is recorded when the block ends."""
        options = {"family": family, "agent": agent, "user_id": user_id, "tags": tags, "external_id": external_id}
        run = self._open(task, options, parent_id=parent_id)
        await self._fetch_async(run)
        token = _current.set(run)
        try:
            yield run
        except BaseException as error:
            leave(token)
            run.end_with(error)
            self._keep(run)  # a block that is cancelled cannot wait for a thread
            raise
        leave(token)
        await asyncio.to_thread(self._keep, run)
        if self.strict:
            await asyncio.to_thread(self._check_recorded, SENDING_TIMEOUT_SECONDS)

    def learns(
        self, *, family: str = "", agent: str = ""
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
        """Make each call of an async function a run. The task is its parameter `task`, or else its first argument."""

        def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
            @functools.wraps(function)
            async def learning(*args: P.args, **kwargs: P.kwargs) -> T:
                async with self.run(_find_task(function, args, kwargs), family=family, agent=agent) as run:
                    result = await function(*args, **kwargs)
                    _answer(run, result)
                    return result

            return learning

        return decorate

    async def flush(self, seconds: float = 10.0) -> bool:
        """Wait until all runs are recorded, and tell whether they are. What is not yet stays on disk."""
        return await asyncio.to_thread(self._outbox.flush, seconds)

    async def close(self) -> None:
        """Give the last runs a moment to be recorded. Happens by itself when the process ends."""
        await asyncio.to_thread(self._close)

    async def __aenter__(self) -> "AsyncERL":
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()


def _budget() -> float:
    try:
        return float(os.environ.get("ERL_BUDGET_SECONDS") or BUDGET_SECONDS)
    except ValueError:
        log.warning("ERL_BUDGET_SECONDS must be a number of seconds.")
        return BUDGET_SECONDS


def leave(token: "Token[Run | None]") -> None:
    """Go back to the run around the one whose code ends here."""
    with suppress(ValueError):  # the block of a generator may end in another context than it began in
        _current.reset(token)


def _find_task(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Return what a call of a function is asked to do."""
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:  # the call itself will say what is wrong
        return function.__name__
    if "task" in given:
        return str(given["task"])
    texts = [value for value in given.values() if isinstance(value, str)]
    return texts[0] if texts else function.__name__


def _answer(run: Run, result: Any) -> None:
    """Take what a function returned as the agent's answer, where nothing else is known of the run."""
    if isinstance(result, str) and result and run.is_empty:
        run.step("respond", {"content": result})


def _close_at_exit(client: _Client) -> Callable[[], None]:
    weak = weakref.ref(client)

    def close() -> None:
        if (client := weak()) is not None:
            with suppress(Exception):
                client._close()

    atexit.register(close)
    return close
