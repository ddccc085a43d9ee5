"""Parts of an answer reach those who follow its run while it comes, and are stored nowhere."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from threading import Event as Signal
from threading import Thread
from typing import Any
from uuid import UUID

import psycopg
import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from memory.ids import uuid7
from reflection.jobs.models import Job
from reflection.llm.base import OnText
from reflection.llm.chat import ChatAnswer, ChatRequest
from runtime.loop import asking
from runtime.models.runs import Event, Run
from runtime.streaming import sse
from runtime.streaming.events import CHANNEL, PART_CHARACTERS, send_text
from runtime.streaming.feed import Feed, Notice, Subscription
from runtime.streaming.readers import KeyReader
from runtime.streaming.reading import Seen, read_events
from runtime.streaming.sse import write_events
from tests.factories import make_api_key
from tests.runtime.running import Script, go_on, make_agent, make_run
from tests.waiting import step_through

pytestmark = pytest.mark.django_db(transaction=True)
HOSTILE = '€\x01"\U0001f600' * PART_CHARACTERS


class Held(Script):
    """A model that says the same again and again until it may end."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.may_end = Signal()

    def start(self, request: ChatRequest, *, on_text: OnText | None = None) -> "Future[ChatAnswer]":
        """Answer in a thread, as providers do that are services."""
        asked: Future[ChatAnswer] = Future()

        def answer() -> None:
            whole = self.chat(request, on_text=on_text)
            while on_text is not None and not self.may_end.wait(0.05):
                on_text(whole.text)
            asked.set_result(whole)

        Thread(target=answer).start()
        return asked


@contextmanager
def working(run: Run, model: Held) -> Iterator[None]:
    """Let a worker go on with a run beside the block; the model ends with it."""

    def work() -> None:
        go_on(Run.objects.get(pk=run.pk), model)
        connection.close()

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        model.may_end.set()
        thread.join()


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "SECONDS_BETWEEN_PARTS", 0.0)
    # A feed of its own: that of a test behind a pooler does not listen, and goes on for a second.
    monkeypatch.setattr(sse, "feed", Feed())


@pytest.fixture
def job() -> Job:
    """The job of a run, which a worker holds."""
    run = make_run(make_agent())
    Job.objects.filter(subject=str(run.pk)).update(
        status=Job.Status.RUNNING, attempts=1, lease_until=Now() + timedelta(hours=1), started_at=Now()
    )
    return Job.objects.get(subject=str(run.pk))


@pytest.fixture
def listener(job: Job) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**connection.get_connection_params(), autocommit=True) as listening:
        listening.execute(f"LISTEN {CHANNEL}")
        yield listening


def make_reader(run: Run) -> KeyReader:
    return KeyReader(key_id=make_api_key(project=run.project).api_key.pk, project_id=run.project_id)


def follow(run: Run, *, after: int) -> Iterator[bytes]:
    """Follow a run from an event on; what comes next comes to a reader who listens already."""
    stream = write_events(run.pk, after=after, first=read_events(run.pk, after=after), reader=make_reader(run))
    parts: Iterator[bytes] = step_through(stream)
    next(part for part in parts if not part)
    return parts


def test_reader_is_given_parts_without_a_number_and_then_the_message() -> None:
    run, model = make_run(make_agent()), Held("On its way.")
    events = follow(run, after=0)

    with working(run, model):
        part = next(event for event in events if b"event: text" in event)
    rest = b"".join(events)

    assert part.startswith(b'event: text\ndata: {"step":1,"attempt":1,"text":"On its way.')
    assert b'"content":"On its way."' in rest
    assert not Event.objects.filter(kind="text").exists()


def test_reader_who_comes_back_in_the_midst_of_an_answer_gets_the_whole_message() -> None:
    run, model = make_run(make_agent()), Held("On its way.")
    events = follow(run, after=0)

    with working(run, model):
        next(event for event in events if b"event: text" in event)
        position = Run.objects.get(pk=run.pk).events_written
        again = step_through(write_events(run.pk, after=position, first=[], reader=make_reader(run)))
        next(event for event in again if b"event: text" in event)
    numbered = [event for event in again if event.startswith(b"id: ")]

    assert numbered[0].startswith(f"id: {position + 1}\nevent: message".encode())
    assert b'"content":"On its way."' in numbered[0]


def test_behind_a_pooler_there_are_messages_without_parts(settings: Any) -> None:
    settings.ERL_DATABASE_POOLER = True
    run, model = make_run(make_agent()), Held("On its way.")
    model.may_end.set()
    events = follow(run, after=0)

    with working(run, model):
        seen = b"".join(events)

    assert b"event: text" not in seen
    assert b'"content":"On its way."' in seen


def test_long_part_is_cut_and_nothing_of_it_is_lost(listener: psycopg.Connection[Any], job: Job) -> None:
    assert send_text(UUID(job.subject), job, step=1, text=HOSTILE)
    notices = [Notice.read(told.payload) for told in listener.notifies(timeout=5, stop_after=4)]

    assert "".join(json.loads(notice.text)["text"] for notice in notices) == HOSTILE
    assert {(notice.run_id, notice.after) for notice in notices} == {(UUID(job.subject), 2)}


def lose_claim(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(attempts=F("attempts") + 1)


def give_job_back(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(status=Job.Status.QUEUED, lease_until=None)


def end_run(job: Job) -> None:
    now = "status = 'failed', stop_reason = 'error', finished_at = now()"
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE agents_run SET {now} WHERE id = %s", [job.subject])  # noqa: S608 - our own


@pytest.mark.parametrize("loss", [lose_claim, give_job_back, end_run])
def test_worker_without_its_claim_sends_no_part(
    listener: psycopg.Connection[Any], job: Job, loss: Callable[[Job], None]
) -> None:
    loss(job)

    assert not send_text(UUID(job.subject), job, step=1, text="Stale.")
    listener.execute(f"NOTIFY {CHANNEL}, 'last'")
    assert [told.payload for told in listener.notifies(timeout=5, stop_after=1)] == ["last"]


def test_worker_that_loses_its_claim_while_the_model_answers_stops_listening() -> None:
    run = make_run(make_agent())

    def lose(request: ChatRequest) -> str:
        lose_claim(Job.objects.get(subject=str(run.pk)))
        connection.close()
        return "Stale."

    go_on(run, Script(lose))

    assert run.status == Run.Status.RUNNING
    assert not run.messages.filter(role="assistant").exists()


def test_part_that_comes_after_a_later_event_is_left_out() -> None:
    async def take() -> list[Seen]:
        subscription = Subscription(uuid7(), 3, KeyReader(key_id=uuid7(), project_id=uuid7()))
        for after in (2, 3):
            subscription.give_text(Notice(subscription.run_id, after, f'{{"text": "after {after}"}}'))
        return await subscription.take(seconds=5)

    assert asyncio.run(take()) == [Seen(0, "text", {"text": "after 3"})]
