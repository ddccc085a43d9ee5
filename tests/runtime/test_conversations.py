"""Conversations that people and keys rewind, fork, shorten and delete."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from memory.api.errors import STATUS
from memory.errors import InvalidInput
from memory.trust.erasure import erase_trajectory
from memory.trust.models import AuditEntry, Erasure
from reflection.llm.base import ProviderError
from runtime.context.prompt import hash_prompt, rebuild_request
from runtime.conversations import (
    delete_conversation,
    fork_conversation,
    rewind_conversation,
    want_compaction,
)
from runtime.errors import ConversationBusy, ConversationErased, RunNotResumable
from runtime.models.conversations import Compaction, Conversation, Message
from runtime.models.effects import Approval
from runtime.models.runs import Run
from runtime.runs import cancel_run, resume_run
from tests.runtime.running import BY, Script, check_deferred, go_on, make_agent, make_run
from tests.runtime.test_api import Api, finish, start

pytestmark = pytest.mark.django_db
LOOK = [("conversation_search", {"query": "order"})]


def talk(*inputs: str, agent: Any = None, conversation: Conversation | None = None) -> Run:
    """Let an agent answer messages in one conversation; return the last run."""
    agent = agent or make_agent(tools=["conversation_search"])
    for text in inputs:
        run = make_run(agent, text, conversation=conversation)
        go_on(run, Script(f"Answer to {text}"))
        conversation = run.conversation
    return run


def read_prompt(run: Run) -> list[str]:
    """Return what the model is told when a run goes on, without the system's words."""
    script = Script("Done.")
    go_on(run, script)
    return [message.content for message in script.asked[0].messages[1:]]


def test_model_reads_nothing_that_was_rewound() -> None:
    run = talk("one", "two")

    rewind_conversation(run.conversation, to=2, by=BY)

    after = make_run(run.agent, "three", conversation=run.conversation)
    assert read_prompt(after) == ["one", "Answer to one", "three"]
    assert after.conversation.messages.count() == 6  # nothing was lost


def test_rewinding_to_the_beginning_leaves_nothing_to_read() -> None:
    run = talk("one")

    rewind_conversation(run.conversation, to=0, by=BY)

    assert read_prompt(make_run(run.agent, "two", conversation=run.conversation)) == ["two"]


def test_prompt_of_a_step_before_the_rewinding_can_be_built_again() -> None:
    run = talk("one", "two")
    step = run.steps.get()

    rewind_conversation(run.conversation, to=2, by=BY)

    step.refresh_from_db()
    assert hash_prompt(rebuild_request(step)) == step.prompt_sha256


def test_summary_of_what_was_rewound_is_not_read() -> None:
    run = talk("one", "two")
    want_compaction(run.conversation)
    third = talk("three", agent=run.agent, conversation=run.conversation)
    assert "Answer to one" in third.conversation.compactions.get().summary

    rewind_conversation(run.conversation, to=2, by=BY)

    after = make_run(run.agent, "four", conversation=Conversation.objects.get(pk=run.conversation_id))
    assert read_prompt(after) == ["one", "Answer to one", "four"]


@pytest.mark.parametrize("to", [3, 99])
def test_message_that_is_not_there_or_was_rewound_is_refused(to: int) -> None:
    run = talk("one", "two")
    rewind_conversation(run.conversation, to=2, by=BY)

    with pytest.raises(InvalidInput, match=f"no message {to}"):
        rewind_conversation(run.conversation, to=to, by=BY)


def test_run_that_was_rewound_is_not_resumed() -> None:
    run = talk("one")
    failed = make_run(run.agent, "two", conversation=run.conversation)
    go_on(failed, Script(ProviderError("No key.", transient=False, status=401)))
    rewind_conversation(run.conversation, to=2, by=BY)

    with pytest.raises(RunNotResumable, match="rewound"):
        resume_run(failed, by=BY)


def test_failed_run_goes_on_from_the_message_it_was_rewound_to() -> None:
    run = make_run(make_agent(tools=["conversation_search"]))
    go_on(run, Script(LOOK, ProviderError("No key.", transient=False, status=401)))
    rewind_conversation(run.conversation, to=1, by=BY)

    assert read_prompt(resume_run(run, by=BY)) == ["Where is order 1?"]


def test_fork_goes_on_by_itself() -> None:
    run = talk("one", "two")

    fork = fork_conversation(run.conversation, through=2, by=BY)

    check_deferred()
    assert read_prompt(make_run(run.agent, "three", conversation=fork)) == ["one", "Answer to one", "three"]
    assert run.conversation.messages.count() == 4
    assert run.messages.count() == 2  # a run has only what was said in it


def test_fork_reads_the_summary_that_its_source_had() -> None:
    run = talk("one", "two")
    want_compaction(run.conversation)
    talk("three", agent=run.agent, conversation=run.conversation)
    source = Conversation.objects.get(pk=run.conversation_id)

    said = read_prompt(make_run(run.agent, "four", conversation=fork_conversation(source, by=BY)))

    assert "Answer to one" in said[0]
    assert said[-1] == "four"


def test_erasing_a_run_takes_its_words_out_of_forks_of_forks() -> None:
    run = talk("a secret word", "two")
    want_compaction(run.conversation)
    talk("three", agent=run.agent, conversation=run.conversation)
    source = Conversation.objects.get(pk=run.conversation_id)
    fork_conversation(fork_conversation(source, by=BY), by=BY)

    first = Run.objects.order_by("created_at")[0]
    assert first.trajectory is not None
    erase_trajectory(first.trajectory, by=BY)

    assert not Message.objects.filter(content__contains="secret").exists()
    assert not Compaction.objects.filter(summary__contains="secret").exists()


def test_wanted_compaction_is_made_before_the_model_is_asked_next_and_only_once() -> None:
    run = talk("one", "two")

    want_compaction(run.conversation)
    talk("three", "four", agent=run.agent, conversation=run.conversation)

    compaction = Compaction.objects.get()
    assert (compaction.summarised_through, Conversation.objects.get().compaction_wanted) == (4, False)


def test_deletion_erases_everything_that_was_said_and_says_so() -> None:
    run = talk("one", "two")
    conversation, runs = run.conversation, list(Run.objects.values_list("pk", flat=True))
    fork_conversation(conversation, by=BY)

    delete_conversation(conversation, by=BY)

    check_deferred()
    assert not Message.objects.exists()
    assert not Run.objects.exists()
    assert set(Erasure.objects.values_list("trajectory_id", flat=True)) == set(runs)
    assert AuditEntry.objects.filter(kind="conversation_deleted", subject_id=conversation.pk).count() == 1


def test_rewinding_is_in_the_audit_chain() -> None:
    run = talk("one")

    rewind_conversation(run.conversation, to=1, by=BY)

    check_deferred()
    entry = AuditEntry.objects.get(kind="conversation_rewound")
    assert (entry.subject_id, '"by": "user:ana"' in entry.content) == (run.conversation_id, True)


@pytest.mark.parametrize(
    "act",
    [
        lambda conversation: rewind_conversation(conversation, to=1, by=BY),
        lambda conversation: fork_conversation(conversation, by=BY),
        want_compaction,
        lambda conversation: delete_conversation(conversation, by=BY),
    ],
)
def test_open_run_stands_against_it(act: Any) -> None:
    run = make_run(make_agent())

    with pytest.raises(ConversationBusy, match=f"Run {run.pk} is still open"):
        act(run.conversation)


@pytest.mark.parametrize("act", ["rewind", "fork", "compact", "delete"])
def test_conversation_is_managed_over_http_after_a_cancelled_run(act: str) -> None:
    api = Api()
    run = start(api)
    cancel_run(Run.objects.get(pk=run["id"]), by=BY)
    finish(run)
    path = f"conversations/{run['conversation']}"
    calls: dict[str, Any] = {
        "rewind": lambda: api.post(f"{path}/rewind", {"message": 1}),
        "fork": lambda: api.post(f"{path}/fork"),
        "compact": lambda: api.post(f"{path}/compact"),
        "delete": lambda: api.client.delete(f"/api/v1/{path}", headers=api.headers),
    }

    assert calls[act]().status_code in (200, 201, 204)


@pytest.mark.parametrize("act", ["rewind", "fork", "compact", "delete"])
def test_run_that_waits_for_approval_stands_against_it_over_http(act: str) -> None:
    rules = ({"type": "requires_approval", "tool": "send_message"},)
    api = Api()
    run = make_run(make_agent(project=api.key.api_key.project, tools=["send_message"], rules=rules))
    go_on(run, Script([("send_message", {"message": "Hello."})]))
    approval = Approval.objects.get(run=run)
    path = f"conversations/{run.conversation_id}"
    calls: dict[str, Any] = {
        "rewind": lambda: api.post(f"{path}/rewind", {"message": 1}),
        "fork": lambda: api.post(f"{path}/fork"),
        "compact": lambda: api.post(f"{path}/compact"),
        "delete": lambda: api.client.delete(f"/api/v1/{path}", headers=api.headers),
    }

    answer = calls[act]()

    assert answer.status_code == 409
    assert f"/api/v1/effects/{approval.effect_id}/decide" in answer.json()["error"]["message"]
    assert Conversation.objects.get().rewound_at is None


def test_fork_outlives_the_conversation_it_was_made_from() -> None:
    api = Api()
    run = talk("one", "two", agent=make_agent(project=api.key.api_key.project))
    fork = api.post(f"conversations/{run.conversation_id}/fork").json()
    deleted = api.client.delete(f"/api/v1/conversations/{run.conversation_id}", headers=api.headers)

    copies = api.get(f"conversations/{fork['id']}/messages").json()["results"]
    after = make_run(run.agent, "three", conversation=Conversation.objects.get(pk=fork["id"]))

    assert (deleted.status_code, copies) == (204, [])
    assert api.get(f"conversations/{fork['id']}").json()["forked_from"] is None
    assert read_prompt(after) == ["three"]


def test_fork_under_a_key_is_made_once() -> None:
    api = Api()
    run = start(api)
    finish(run, "On its way.")
    path = f"conversations/{run['conversation']}/fork"

    first = api.post(path, {}, **{"Idempotency-Key": "k1"})
    again = api.post(path, {}, **{"Idempotency-Key": "k1"})

    assert (first.status_code, first.content, Conversation.objects.count()) == (201, again.content, 2)


@pytest.mark.parametrize(
    "act",
    [
        lambda run: delete_conversation(run.conversation, by=BY),
        lambda run: rewind_conversation(run.conversation, to=0, by=BY),
        lambda run: fork_conversation(run.conversation, by=BY),
        lambda run: want_compaction(run.conversation),
        lambda run: make_run(run.agent, "two", conversation=run.conversation),
        lambda run: resume_run(run, by=BY),
    ],
    ids=["delete", "rewind", "fork", "compact", "start", "resume"],
)
def test_conversation_that_was_deleted_a_moment_ago_is_not_found(act: Any) -> None:
    run = make_run(make_agent())
    go_on(run, Script(ProviderError("No.", transient=False)))
    delete_conversation(Conversation.objects.get(pk=run.conversation.pk), by=BY)

    with pytest.raises(ConversationErased) as raised:
        act(run)
    assert STATUS[raised.value.code] == 404


@pytest.mark.django_db(transaction=True)
def test_of_messages_that_replace_each_other_at_once_one_goes_on() -> None:
    run = make_run(make_agent())
    ready = Barrier(4)

    def replace(_: int) -> Run:
        ready.wait(30)
        try:
            return make_run(run.agent, "Again.", conversation=run.conversation, replaces_open=True)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        started = list(pool.map(replace, range(4)))

    runs = Run.objects.filter(pk__in=[run.pk, *(each.pk for each in started)])
    assert sorted(runs.values_list("status", flat=True)) == ["cancelled"] * 4 + ["queued"]
