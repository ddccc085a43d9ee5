"""The pages of agents: who may see and do what, and that they work without JavaScript."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.projects.models import Project
from runtime.approvals import decide_effect
from runtime.definitions.loading import load_file
from runtime.definitions.python_file import read_definitions
from runtime.definitions.storage import save_tool
from runtime.models.agents import Agent
from runtime.models.conversations import Conversation
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Run
from runtime.models.tools import Tool
from runtime.revisions import AgentSpec, revise_agent
from runtime.tools import catalogue
from tests.factories import make_member, make_project
from tests.runtime.rows import store_agent
from tests.runtime.running import BY, Script, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
PERMISSIONS = [
    *("view_agent", "view_run", "view_approval", "view_tool"),
    *("decide_approval", "talk_to_agent", "review_tool"),
]
RULES = ({"type": "requires_approval", "tool": "send_message"},)


def log_in(project: Project, *, role: str = "reviewer", permissions: list[str] = PERMISSIONS) -> Client:
    client = Client()
    client.force_login(make_member(f"{role}-{project.slug}", project=project, role=role, permissions=permissions))
    return client


def waiting() -> tuple[Run, Approval]:
    """Make a run that waits for the approval of a message."""
    run = make_run(make_agent(tools=["send_message"], rules=RULES))
    go_on(run, Script([("send_message", {"message": "Hello <b>"})]))
    return run, Approval.objects.select_related("effect").get()


def path_of(row: Any) -> str:
    if isinstance(row, Approval):
        return reverse("admin:inbox_item", args=["call", row.pk])
    return reverse(f"admin:agents_{row._meta.model_name}_change", args=[row.pk])


def decide(client: Client, approval: Approval, decision: str, **values: str) -> Any:
    sent = {"decision": decision, "arguments_sha256": approval.arguments_sha256} | values
    return client.post(path_of(approval), sent)


def test_person_approves_without_javascript() -> None:
    run, approval = waiting()
    client = log_in(run.project)
    assert "Hello &lt;b&gt;" in client.get(path_of(approval)).content.decode()

    answer = decide(client, approval, "approve")
    go_on(run, Script("Done."))

    assert answer.headers["Location"] == reverse("admin:inbox")
    assert client.get(reverse("admin:agents_approval_change", args=[approval.pk])).headers["Location"] == path_of(
        approval
    )
    assert [run.status, run.messages.get(effect__isnull=False, role="assistant").content] == ["succeeded", "Hello <b>"]
    approval.refresh_from_db()
    assert (approval.status, approval.decided_by) == ("approved", f"user:reviewer-{run.project.slug}")


def test_person_approves_in_the_inbox() -> None:
    run, approval = waiting()
    client = log_in(run.project)
    at = reverse("admin:inbox_item", args=["call", approval.pk])
    assert "What the user asked for" in client.get("/admin/inbox/").content.decode()

    client.post(at, {"decision": "approve", "arguments_sha256": approval.arguments_sha256})

    approval.refresh_from_db()
    assert approval.status == "approved"
    assert "Nothing is waiting for you" in client.get("/admin/inbox/").content.decode()


def test_person_edits_after_a_preview() -> None:
    run, approval = waiting()
    client, arguments = log_in(run.project), '{"message": "Hi"}'

    preview = decide(client, approval, "preview", arguments=arguments).content.decode()
    assert "<del>Hello" in preview
    assert Effect.objects.get().status == "waiting"
    decide(client, approval, "edit", arguments=arguments)

    assert list(run.effects.order_by("id").values_list("arguments__message", "status")) == [
        ("Hello <b>", "superseded"),
        ("Hi", "planned"),
    ]


def test_person_answers_in_place_of_the_tool() -> None:
    run, approval = waiting()
    decide(log_in(run.project), approval, "answer", answer="I told them.\r\nTwice.")
    effect = run.effects.get()
    assert (effect.status, effect.result) == ("succeeded", "I told them.\nTwice.")


@pytest.mark.parametrize(
    ("decision", "values", "said"),
    [
        ("reject", {}, "Choose a reason or write one"),
        ("answer", {"answer": " "}, "Write what the agent is to read."),
        ("edit", {"arguments": "{"}, "This is not JSON"),
        ("edit", {"arguments": "[1]"}, "Write a JSON object"),
        ("edit", {"arguments": '{"message": "\\u0000"}'}, "Leave out the character U+0000"),
        ("edit", {"arguments": '{"message": 1e999}'}, "Send finite numbers"),
        ("edit", {"arguments": '{"message": 99999999999999999999}'}, "Send integers below 2^63"),
        ("edit", {"arguments": '{"message": "a", "message": "b"}'}, "Use every member name once"),
        ("edit", {"arguments": '{"message": 5}'}, "message"),
    ],
)
def test_what_cannot_be_decided_is_said_beside_the_field(decision: str, values: dict[str, str], said: str) -> None:
    run, approval = waiting()
    page = decide(log_in(run.project), approval, decision, **values).content.decode()
    assert said in page[page.index("errorlist") :]
    assert run.effects.get().status == "waiting"


def test_decision_about_other_arguments_is_refused() -> None:
    run, approval = waiting()
    client = log_in(run.project)
    decide(client, approval, "approve", arguments_sha256="0" * 64)
    assert "other arguments than those you read" in client.get(path_of(approval)).content.decode()
    assert run.effects.get().status == "waiting"


@pytest.mark.parametrize(("role", "missing"), [("auditor", ""), ("operator", ""), ("reviewer", "decide_approval")])
def test_others_read_a_call_and_do_not_decide(role: str, missing: str) -> None:
    run, approval = waiting()
    client = log_in(run.project, role=role, permissions=[each for each in PERMISSIONS if each != missing])
    assert "You can only read this page." in client.get(path_of(approval)).content.decode()
    assert decide(client, approval, "approve").status_code == 403
    assert run.effects.get().status == "waiting"


def test_people_of_other_projects_see_nothing() -> None:
    run, approval = waiting()
    client = log_in(make_project())
    pages = [path_of(row) for row in (approval, run, run.agent)]
    assert [client.get(page).status_code for page in pages] == [302] * 3
    assert client.get(reverse("admin:agents_run_events", args=[run.pk])).status_code == 404
    decide(client, approval, "approve")
    assert run.effects.get().status == "waiting"


def test_events_need_the_permission_and_stream_to_a_session() -> None:
    run, approval = waiting()
    decide_effect(approval.effect, decision="reject", arguments_sha256=approval.arguments_sha256, by=BY, reason="No")
    go_on(run, Script("Bye."))
    address = reverse("admin:agents_run_events", args=[run.pk])

    assert log_in(run.project, role="auditor", permissions=[]).get(address).status_code == 403
    client = log_in(run.project)
    stream: Any = client.get(address)
    events = b"".join(stream.streaming_content).decode()
    assert stream.headers["Content-Type"] == "text/event-stream"
    assert "event: approval" in events
    assert '"status":"succeeded"' in events
    assert client.get(address, {"after": run.events_written}).status_code == 204


def test_message_on_the_page_starts_a_run_and_goes_on_in_its_conversation() -> None:
    agent = make_agent(tools=["send_message"])
    client = log_in(agent.project, role="operator")
    first = client.post(path_of(agent), {"message": "Where is\r\norder 1?"}, follow=True)
    run = Run.objects.get()
    assert (run.task, first.redirect_chain[-1][0]) == ("Where is\norder 1?", path_of(run))
    go_on(run, Script("Here."))

    client.post(path_of(run), {"do": "say", "message": "Thanks"})

    assert [each.conversation_id for each in Run.objects.all()] == [run.conversation_id] * 2
    page = client.get(path_of(run)).content.decode()
    assert "Here." in page
    assert ">Thanks</a>" in page


def test_run_is_cancelled_and_resumed_on_its_page() -> None:
    run, _ = waiting()
    client = log_in(run.project)
    client.post(path_of(run), {"do": "cancel"})
    go_on(run, Script())
    assert "It has ended, so it stays" in client.post(path_of(run), {"do": "cancel"}, follow=True).content.decode()
    assert "Nothing was done" in client.post(path_of(run), {"do": "sing"}, follow=True).content.decode()
    answer = client.post(path_of(run), {"do": "resume"})
    assert (run.status, Run.objects.get(resumes=run).status) == ("cancelled", "queued")
    assert answer.headers["Location"] == path_of(Run.objects.get(resumes=run))


def test_auditor_starts_and_cancels_nothing() -> None:
    run, _ = waiting()
    client = log_in(run.project, role="auditor")
    assert client.post(path_of(run.agent), {"message": "Hi"}).status_code == 403
    assert client.post(path_of(run), {"do": "cancel"}).status_code == 403
    assert Run.objects.get().cancel_requested_at is None


def test_page_of_an_agent_shows_what_a_revision_changed() -> None:
    agent = make_agent(system="Be brief.", tools=["send_message"])
    revise_agent(agent, spec=AgentSpec(system="Be kind.", rules=RULES, tools=({"name": "send_message"},)), by=BY)
    page = log_in(agent.project).get(path_of(agent)).content.decode()
    assert "<del>brief</del><ins>kind</ins>" in page
    assert "requires approval send_message" in page


TOOL = '''from runtime.definitions import agent, tool


@tool(examples=[({"order": "A1"}, "A1 is on its way")])
def find_order(order: str) -> str:
    """Find an order."""
    return f"{order} is on its way"


agent("shop", tools=[find_order])
'''


def test_tool_is_put_in_force_by_the_hash_that_was_read() -> None:
    project = make_project()
    load_file(project, TOOL, by=BY)
    load_file(project, TOOL.replace("on its way", "here"), by=BY)
    tool = Tool.objects.get()
    client, first = log_in(project), tool.revisions.get(number=1)
    page = client.get(path_of(tool)).content.decode()
    item = reverse("admin:inbox_item", args=["tool", first.pk])
    assert all(text in page for text in ("Put revision 1 in force again", item, "A1 is here", ">shop</a>"))

    client.post(item, {"decision": "approve", "sha256": "0" * 64})
    client.post(item, {"decision": "approve", "sha256": "\x00"})
    assert Tool.objects.get().current != first
    sent = {"decision": "approve", "sha256": first.content_sha256}
    assert log_in(project, role="auditor").post(item, sent).status_code == 403
    assert client.post(path_of(tool), sent).status_code == 403  # the inbox decides
    client.post(item, sent)
    assert Tool.objects.get().current == first


def test_proposed_tool_is_rejected_and_then_not_put_in_force() -> None:
    project = make_project()
    definition = read_definitions(TOOL).tools[0]
    revision = save_tool(project, definition, by=BY).revision
    client, item = log_in(project), reverse("admin:inbox_item", args=["tool", revision.pk])
    assert item in client.get(path_of(revision.tool)).content.decode()

    client.post(item, {"decision": "reject", "sha256": revision.content_sha256})
    client.post(item, {"decision": "approve", "sha256": revision.content_sha256})

    revision.refresh_from_db()
    assert revision.status == "rejected"
    assert [review.reviewer for review in revision.reviews] == [f"user:reviewer-{project.slug}"]
    assert Tool.objects.get().current is None


def test_tool_is_allowed_for_always_on_the_page_of_the_agent() -> None:
    run, _ = waiting()
    path, client = path_of(run.agent), log_in(run.project)
    assert ">Always allow</button>" in client.get(path).content.decode()
    assert log_in(run.project, role="operator").post(path, {"tool": "send_message"}).status_code == 403

    client.post(path, {"tool": "send_message", "do": "allow"})
    later = make_run(Agent.objects.get(), conversation=None)
    go_on(later, Script([("send_message", {"message": "Hi"})], "Done."))
    assert (later.status, later.effects.get().status) == ("succeeded", "succeeded")

    client.post(path, {"tool": "send_message", "do": "ask"})
    answer = client.post(path, {"tool": "send_message", "do": "ask"}, follow=True)
    assert "no such tool that is always allowed" in answer.content.decode()
    assert [each["type"] for each in Agent.objects.get().current.rules] == ["requires_approval"]  # type: ignore[union-attr]


def test_texts_of_strangers_are_shown_as_text_and_unknown_calls_say_what_can_be_done() -> None:
    project = make_project()
    approval = store_agent(project, "<script>x</script>\u202e")
    client = log_in(project)
    rows = (approval, *Approval.objects.exclude(pk=approval.pk), approval.run, approval.run.agent, Tool.objects.get())
    pages = [client.get(path_of(row)).content.decode() for row in rows]

    assert [page.count("&lt;script&gt;") > 0 for page in pages] == [True] * 5
    assert [page for page in pages if "<script>x" in page or "\u202e" in page] == []
    assert "it may or may not have happened" in pages[0]
    assert "It did not happen" in pages[0]
    assert "Carry out again" not in pages[0]  # its run has ended

    decide(client, approval, "reject", reason="I looked.")
    approval.refresh_from_db()
    assert (approval.status, approval.effect.status) == ("rejected", "rejected")


def test_page_of_a_run_shows_the_beginning_of_a_long_result(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = catalogue.LoopTool(
        name="look",
        description=".",
        parameters={"type": "object"},
        kind="pure",
        execute=lambda effect: "word " * 200_000,
    )
    monkeypatch.setitem(catalogue.core_tools(), "look", tool)
    run = make_run(make_agent(tools=["look"]))
    go_on(run, Script([("look", {})], "Done."))

    page = log_in(run.project).get(path_of(run)).content.decode()

    assert "The first 20,000 characters." in page
    assert len(page) < 200_000


def test_number_of_queries_of_the_pages(django_assert_max_num_queries: Any) -> None:
    run, approval = waiting()
    client = log_in(run.project)
    for row in (run, approval, Agent.objects.get()):
        with django_assert_max_num_queries(36):
            assert client.get(path_of(row)).status_code == 200


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ({"do": "rewind", "number": "1"}, {"rewound_to": 1}),
        ({"do": "compact"}, {"compaction_wanted": True}),
        ({"do": "fork", "number": "1", "message": "Try again."}, {"forks__messages_written": 2}),
        ({"do": "delete"}, None),
    ],
)
def test_conversation_is_managed_on_the_page_of_its_run(sent: dict[str, str], left: Any) -> None:
    run = make_run(make_agent())
    go_on(run, Script("On its way."))

    log_in(run.project).post(path_of(run), sent)

    conversations = Conversation.objects.filter(pk=run.conversation_id)
    assert conversations.filter(**(left or {})).count() == (0 if left is None else 1)
