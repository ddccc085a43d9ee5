"""Edits of blocks, revisions of tools and changes of who decides, read and decided in the inbox."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.blocks.edits import Edit, NewBlock, append_to_block, create_block
from memory.blocks.models import BlockRevision
from memory.blocks.reading import read_block
from memory.projects.actors import Actor
from memory.projects.models import Project, RuleChange
from memory.projects.rule_changes import change_settings
from memory.review.models import Review
from runtime.definitions.storage import save_tool
from runtime.definitions.values import ToolDefinition
from runtime.models.tools import Tool, ToolRevision
from runtime.revisions import AgentSpec, create_agent
from tests.factories import make_member, make_project, require_two

pytestmark = pytest.mark.django_db

AGENT = Actor(label="agent:helper")
SOURCE = "def hello() -> str:\n    return '{}'\n"


def sign_in(name: str, *permissions: str, **options: Any) -> Client:
    client = Client()
    client.force_login(make_member(name, permissions=permissions, **options))
    return client


def wait_in_block(project: Project) -> BlockRevision:
    block = create_block(project, NewBlock(label="persona", value="Be kind.", policy="propose"), by=AGENT)
    return append_to_block(block, text="Be brief.", edit=Edit(by=AGENT, reason="The user asked."))


def wait_as_tool(project: Project, answer: str = "hello") -> ToolRevision:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    definition = ToolDefinition(name="hello", description="Greet.", parameters=parameters, source=SOURCE.format(answer))
    return save_tool(project, definition, by=AGENT).revision


def item(kind: str, row: Any) -> str:
    return reverse("admin:inbox_item", args=[kind, row.pk])


def read(client: Client, kind: str, row: Any) -> str:
    answer = client.get(item(kind, row))
    assert answer.status_code == 200
    return answer.content.decode()


def test_inbox_lists_what_waits_of_every_kind() -> None:
    project = make_project()
    wait_in_block(project)
    wait_as_tool(project)
    rights = ("view_block", "review_block", "view_tool", "review_tool", "view_heuristic")

    shown = sign_in("ana", *rights).get(reverse("admin:inbox")).content.decode()

    assert "persona: appended" in shown
    assert "hello, revision 1" in shown


def test_edit_of_a_block_is_approved_where_it_is_read() -> None:
    revision = wait_in_block(make_project())
    ana = sign_in("ana", "view_block", "review_block")
    page = read(ana, "block", revision)
    sent = {"decision": "approve", "content_sha256": revision.content_sha256, "compared": "1"}

    answer = ana.post(item("block", revision), sent, follow=True)

    assert "The user asked." in page
    assert f"18 of {revision.block.char_limit} characters" in page
    assert "Agents read it from now on." in answer.content.decode()
    revision.refresh_from_db()
    assert revision.status == BlockRevision.Status.APPROVED
    assert Review.objects.get(content_sha256=revision.content_sha256).reviewer == "user:ana"


def test_edit_of_a_block_is_not_rejected_without_a_reason() -> None:
    revision = wait_in_block(make_project())
    ana = sign_in("ana", "view_block", "review_block")
    sent = {"decision": "reject", "content_sha256": revision.content_sha256}

    refused = ana.post(item("block", revision), sent, follow=True).content.decode()
    rejected = ana.post(item("block", revision), sent | {"reason_code": "Too long"}, follow=True).content.decode()

    assert "Choose a reason or write one" in refused
    assert "The block stays as it is." in rejected
    assert Review.objects.get(content_sha256=revision.content_sha256).reason == "Too long"


def test_edit_that_changed_since_it_was_read_is_not_approved() -> None:
    revision = wait_in_block(make_project())
    sent = {"decision": "approve", "content_sha256": "0" * 64, "compared": "1"}

    sign_in("ana", "view_block", "review_block").post(item("block", revision), sent)

    revision.refresh_from_db()
    assert revision.status == BlockRevision.Status.PROPOSED


@pytest.mark.parametrize(("decision", "status"), [("approve", "approved"), ("reject", "rejected")])
def test_revision_of_a_tool_is_decided_where_it_is_read(decision: str, status: str) -> None:
    revision = wait_as_tool(make_project())
    ana = sign_in("ana", "view_tool", "review_tool")
    page = read(ana, "tool", revision)

    ana.post(item("tool", revision), {"decision": decision, "sha256": revision.content_sha256})

    assert "return &#x27;hello&#x27;" in page
    revision.refresh_from_db()
    assert revision.status == status


@pytest.mark.parametrize(("kind", "wait"), [("block", wait_in_block), ("tool", wait_as_tool)])
def test_person_without_the_right_reads_and_decides_nothing(kind: str, wait: Any) -> None:
    revision = wait(make_project())
    ben = sign_in("ben", f"view_{kind}")
    sent = {"decision": "approve", "content_sha256": revision.content_sha256, "sha256": revision.content_sha256}

    page, answer = read(ben, kind, revision), ben.post(item(kind, revision), sent)

    assert "You can only read this page." in page
    assert answer.status_code == 403


@pytest.mark.parametrize(("kind", "wait"), [("block", wait_in_block), ("tool", wait_as_tool)])
def test_what_waits_in_another_project_is_not_found(kind: str, wait: Any) -> None:
    revision = wait(make_project())
    ana = sign_in("ana", f"view_{kind}", f"review_{kind}", project=make_project())

    answer = ana.get(item(kind, revision))

    assert answer.headers["Location"] == reverse("admin:inbox")  # as for what does not exist


@pytest.mark.parametrize(("decision", "status"), [("confirm", "confirmed"), ("refuse", "refused")])
def test_change_of_who_decides_is_decided_by_another_reviewer(decision: str, status: str) -> None:
    project = make_project()
    asks = make_member("ana", permissions=("review_heuristic", "view_rulechange"))
    own, other = Client(), sign_in("ben", "review_heuristic", "view_rulechange")
    own.force_login(asks)
    require_two(project)
    change = change_settings(project, values={"four_eyes": False}, by=Actor.person(asks))
    assert change is not None

    own.post(item("rule", change), {"decision": "confirm"})
    before = RuleChange.objects.get(pk=change.pk).status
    page = read(other, "rule", change)
    other.post(item("rule", change), {"decision": decision})

    assert before == RuleChange.Status.REQUESTED
    assert "four_eyes" in page
    assert RuleChange.objects.get(pk=change.pk).status == status
    assert other.get(reverse("admin:inbox_tab", args=["rule", change.pk, "discussion"])).status_code == 404


def test_change_of_who_decides_is_neither_snoozed_nor_anybodys_own() -> None:
    project = make_project()
    asks = make_member("ana", permissions=("review_heuristic", "view_rulechange"))
    ben = sign_in("ben", "review_heuristic", "view_rulechange")
    require_two(project)
    change_settings(project, values={"four_eyes": False}, by=Actor.person(asks))

    pages = [ben.get(reverse("admin:inbox"), {"show": show}).content.decode() for show in ("", "snoozed", "mine")]

    assert ["four_eyes" in page for page in pages] == [True, False, False]


def test_nothing_waits_in_an_archived_project() -> None:
    project = make_project()
    asks = make_member("ana", permissions=("review_heuristic", "view_rulechange"))
    ben = sign_in("ben", "review_heuristic", "view_rulechange", "view_block", "view_tool")
    wait_in_block(project)
    wait_as_tool(project)
    require_two(project)
    change_settings(project, values={"four_eyes": False}, by=Actor.person(asks))
    Project.objects.filter(pk=project.pk).update(archived_at=timezone.now())

    shown = ben.get(reverse("admin:inbox")).content.decode()

    assert [word for word in ("persona", "hello, revision 1", "four_eyes") if word in shown] == []


# ── Undoing ──

BLOCKS = ("view_block", "review_block")
TOOLS = ("view_tool", "review_tool")


def decide(client: Client, kind: str, row: Any, decision: str, **values: Any) -> str:
    """Decide as the script of the inbox does; return what undoes it."""
    names = {"block": "content_sha256", "tool": "sha256"}
    sent = {"decision": decision, names[kind]: row.content_sha256} | values
    return str(client.post(item(kind, row), sent, headers={"Accept": "application/json"}).json()["undo"])


def undo(client: Client, kind: str, row: Any, token: str) -> str:
    sent = {"kind": kind, "item": f"{kind}/{row.pk}", "token": token}
    return str(client.post(reverse("admin:inbox_undo"), sent, headers={"Accept": "application/json"}).json()["said"])


def list_reviews(row: Any) -> list[str]:
    return list(Review.objects.filter(subject_id=row.pk).order_by("created_at").values_list("decision", flat=True))


def test_undone_approval_of_an_edit_brings_back_what_the_block_said() -> None:
    revision = wait_in_block(make_project())
    ana = sign_in("ana", *BLOCKS)
    token = decide(ana, "block", revision, "approve", compared="1")
    assert read_block(revision.block).value == "Be kind.\nBe brief."

    assert "waiting for a decision again" in undo(ana, "block", revision, token)

    assert read_block(revision.block).value == "Be kind."
    again = BlockRevision.objects.waiting().get()
    assert (again.value, again.reason, again.created_by) == (revision.value, revision.reason, revision.created_by)
    assert list_reviews(revision.block) == ["approve", "undo"]
    decide(ana, "block", again, "approve", compared="1")
    assert read_block(revision.block).value == "Be kind.\nBe brief."


def test_undone_rejection_of_an_edit_lets_it_wait_again() -> None:
    revision = wait_in_block(make_project())
    ana = sign_in("ana", *BLOCKS)
    token = decide(ana, "block", revision, "reject", reason_code="Wrong")

    undo(ana, "block", revision, token)

    assert BlockRevision.objects.waiting().get().value == revision.value
    assert read_block(revision.block).value == "Be kind."


def test_edits_that_waited_beside_it_are_made_again_on_the_value_before() -> None:
    revision = wait_in_block(make_project())
    append_to_block(revision.block, text="Be calm.", edit=Edit(by=AGENT))
    ana = sign_in("ana", *BLOCKS)
    token = decide(ana, "block", revision, "approve", compared="1")

    undo(ana, "block", revision, token)

    waiting = sorted(BlockRevision.objects.waiting().values_list("value", flat=True))
    assert waiting == ["Be kind.\nBe brief.", "Be kind.\nBe calm."]


def test_only_the_person_who_decided_undoes_it_and_only_the_last_decision() -> None:
    revision = wait_in_block(make_project())
    other = append_to_block(revision.block, text="Be calm.", edit=Edit(by=AGENT))
    ana, ben = sign_in("ana", *BLOCKS), sign_in("ben", *BLOCKS)
    token = decide(ana, "block", revision, "reject", reason_code="Wrong")

    assert "Only the person who decided" in undo(ben, "block", revision, token)
    decide(ben, "block", other, "reject", reason_code="Wrong")
    assert "Another decision was made since then" in undo(ana, "block", revision, token)
    assert not BlockRevision.objects.waiting().exists()


def test_undo_comes_too_late_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    revision = wait_as_tool(make_project())
    ana = sign_in("ana", *TOOLS)
    token = decide(ana, "tool", revision, "approve")

    monkeypatch.setattr("memory.review.decisions.UNDO_WITHIN", timedelta())

    assert "can be undone for 10 seconds" in undo(ana, "tool", revision, token)
    assert Tool.objects.get().current == revision


def test_undo_without_the_right_is_refused() -> None:
    revision = wait_as_tool(make_project())
    token = decide(sign_in("ana", *TOOLS), "tool", revision, "approve")
    get_user_model().objects.get().user_permissions.remove(Permission.objects.get(codename="review_tool"))
    client = Client()
    client.force_login(get_user_model().objects.get())

    assert "no longer have the permission" in undo(client, "tool", revision, token)
    assert Tool.objects.get().current == revision


def test_undone_approval_of_a_tool_puts_the_one_before_in_force() -> None:
    project = make_project()
    first, ana = wait_as_tool(project), sign_in("ana", *TOOLS)
    decide(ana, "tool", first, "approve")
    second = wait_as_tool(project, answer="bye")
    token = decide(ana, "tool", second, "approve")

    undo(ana, "tool", second, token)

    second.refresh_from_db()
    assert (Tool.objects.get().current, second.status) == (first, "proposed")
    assert list_reviews(first.tool) == ["approve", "approve", "undo"]
    decide(ana, "tool", second, "approve")
    assert Tool.objects.get().current == second


def test_undone_return_to_an_earlier_tool_keeps_its_approval() -> None:
    project = make_project()
    first, ana = wait_as_tool(project), sign_in("ana", *TOOLS)
    second = wait_as_tool(project, answer="bye")
    for revision in (first, second):
        decide(ana, "tool", revision, "approve")
    token = decide(ana, "tool", first, "approve")

    undo(ana, "tool", first, token)

    first.refresh_from_db()
    assert (Tool.objects.get().current, first.status) == (second, "approved")


def test_undone_rejection_of_a_tool_lets_it_wait_again() -> None:
    revision = wait_as_tool(make_project())
    ana = sign_in("ana", *TOOLS)
    token = decide(ana, "tool", revision, "reject")

    undo(ana, "tool", revision, token)

    assert list(ToolRevision.objects.waiting()) == [revision]


def test_approval_of_a_tool_that_an_agent_has_is_not_undone() -> None:
    revision = wait_as_tool(make_project())
    ana = sign_in("ana", *TOOLS)
    token = decide(ana, "tool", revision, "approve")
    pinned = AgentSpec(tools=({"name": "hello", "revision": str(revision.pk)},))
    create_agent(revision.project, name="support", spec=pinned, by=AGENT)

    assert "An agent has this revision already" in undo(ana, "tool", revision, token)
    assert Tool.objects.get().current == revision


def test_page_without_script_offers_to_undo() -> None:
    revision = wait_as_tool(make_project())
    ana = sign_in("ana", *TOOLS)

    html = ana.post(
        item("tool", revision), {"decision": "approve", "sha256": revision.content_sha256}, follow=True
    ).content.decode()

    assert 'class="undo">' in html
    assert "is in force. New revisions" in html
