"""Edits of blocks, revisions of tools and changes of who decides, read and decided in the inbox."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.blocks.edits import Edit, NewBlock, append_to_block, create_block
from memory.blocks.models import BlockRevision
from memory.projects.actors import Actor
from memory.projects.models import Project, RuleChange
from memory.projects.rule_changes import change_settings
from memory.review.models import Review
from runtime.definitions.storage import save_tool
from runtime.definitions.values import ToolDefinition
from runtime.models.tools import ToolRevision
from tests.factories import make_member, make_project, require_two

pytestmark = pytest.mark.django_db

AGENT = Actor(label="agent:helper")
SOURCE = "def hello() -> str:\n    return 'hello'\n"


def sign_in(name: str, *permissions: str, **options: Any) -> Client:
    client = Client()
    client.force_login(make_member(name, permissions=permissions, **options))
    return client


def wait_in_block(project: Project) -> BlockRevision:
    block = create_block(project, NewBlock(label="persona", value="Be kind.", policy="propose"), by=AGENT)
    return append_to_block(block, text="Be brief.", edit=Edit(by=AGENT, reason="The user asked."))


def wait_as_tool(project: Project) -> ToolRevision:
    parameters: dict[str, Any] = {"type": "object", "properties": {}}
    definition = ToolDefinition(name="hello", description="Greet.", parameters=parameters, source=SOURCE)
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
    assert "What the block says stays as it is." in rejected
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
