"""The home page: what waits, how it goes, one's own decisions, and the first steps of a project."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from memory.blocks.edits import Edit, NewBlock, append_to_block, create_block
from memory.curation.decisions import reject_heuristic
from memory.discussion.models import ItemState
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.retrieval.models import Retrieval
from runtime.definitions.storage import save_tool
from runtime.definitions.values import ToolDefinition
from tests.factories import (
    approve_as_read,
    make_api_key,
    make_heuristic,
    make_member,
    make_project,
    make_reflection,
    make_retrieval,
    make_trajectory,
)
from tests.memory.effect_rows import make_lesson, record_units

pytestmark = pytest.mark.django_db

ROOT = Actor(label="user:root")


@pytest.fixture
def admin(client: Client) -> Client:
    client.force_login(get_user_model().objects.create_superuser("root"))
    return client


def home(client: Client) -> str:
    response = client.get("/admin/")
    assert response.status_code == 200
    return response.content.decode()


EFFECT = "Effect of lessons on success"


def tiles(client: Client) -> dict[str, tuple[str, str]]:
    return {tile.label: (tile.value, tile.note) for tile in client.get("/admin/").context["tiles"]}


def test_home_says_what_waits_and_leads_to_it(admin: Client) -> None:
    make_heuristic()

    shown = admin.get("/admin/").context
    kinds = {kind["label"]: kind for kind in shown["waiting"]}

    assert (kinds["Lessons"]["count"], kinds["Suggestions"]["count"], kinds["Agent calls"]["count"]) == (1, 0, 0)
    assert "Start reviewing" in home(admin)
    assert {admin.get(kind["link"]).status_code for kind in kinds.values()} == {200}


def test_home_counts_edits_of_blocks_and_revisions_of_tools_that_wait(admin: Client) -> None:
    project = make_project()
    block = create_block(project, NewBlock(label="persona", policy="propose"), by=ROOT)
    append_to_block(block, text="Be brief.", edit=Edit(by=ROOT))
    parameters = {"type": "object", "properties": {}}
    source = "def hello() -> str:\n    return 'hello'\n"
    save_tool(
        project, ToolDefinition(name="hello", description="Greet.", parameters=parameters, source=source), by=ROOT
    )

    kinds = {kind["label"]: kind for kind in admin.get("/admin/").context["waiting"]}

    assert (kinds["Block edits"]["count"], kinds["Tools"]["count"]) == (1, 1)
    assert {admin.get(kinds[label]["link"]).status_code for label in ("Block edits", "Tools")} == {200}


def test_home_counts_what_the_inbox_shows(admin: Client) -> None:
    project = make_project()
    _, asleep = (make_heuristic(project=project) for _ in range(2))
    tomorrow = timezone.now() + timedelta(days=1)
    ItemState.objects.create(project=project, kind="lesson", object_id=asleep.pk, snoozed_until=tomorrow)

    kinds = {kind["label"]: kind for kind in admin.get("/admin/").context["waiting"]}

    assert (kinds["Lessons"]["count"], kinds["Lessons"]["link"]) == (1, "/admin/inbox/?kind=lesson")


def test_home_asks_no_decision_of_a_person_who_may_not_decide(client: Client) -> None:
    project = make_project()
    make_heuristic(project=project)
    operator = make_member("olga", project=project, role="operator", permissions=["view_heuristic", "review_heuristic"])
    client.force_login(operator)

    html = home(client)

    assert "1 decision is waiting for a reviewer" in html
    assert "Open the inbox" in html
    assert "Start reviewing" not in html
    assert "<span>" not in client.get("/admin/inbox/count/").content.decode()


def test_home_counts_only_what_a_person_may_decide(client: Client) -> None:
    project = make_project()
    make_heuristic(project=project)
    allowed = ["view_heuristic", "review_mistakecard", "view_mistakecard"]
    client.force_login(make_member(project=project, permissions=allowed))

    shown = client.get("/admin/").context

    assert ([kind["label"] for kind in shown["waiting"]], shown["waiting_count"]) == (["Mistake cards"], 0)


def test_harmful_lesson_waits_since_its_harm_was_found(admin: Client) -> None:
    since = timezone.now() - timedelta(days=9)
    harmful = make_heuristic(status="approved")
    Heuristic.objects.filter(pk=harmful.pk).update(harm={"since": since.isoformat()})

    kinds = {kind["label"]: kind for kind in admin.get("/admin/").context["waiting"]}

    assert (kinds["Harmful?"]["count"], kinds["Harmful?"]["oldest"]) == (1, since)


def test_home_marks_a_proposal_that_waits_for_long(admin: Client) -> None:
    heuristic = make_heuristic()
    assert 'class="alarming">The oldest' not in home(admin)
    Heuristic.objects.filter(pk=heuristic.pk).update(created_at=timezone.now() - timedelta(days=9))

    assert 'class="alarming">The oldest has waited 1 week, 2 days' in home(admin).replace("\xa0", " ")


def test_home_counts_runs(admin: Client) -> None:
    make_trajectory(project=make_project(), outcome="failure")

    assert tiles(admin)["Runs"][0] == "1"


def test_effect_of_lessons_cannot_be_told_without_a_hold_out(admin: Client) -> None:
    """Runs with and without lessons do different work: how often they succeed is not compared."""
    project = make_project()
    given = make_retrieval(project=project, heuristic_ids=[make_heuristic(project=project).pk])
    make_trajectory(project=project, retrieval=given, outcome="success", score=1)
    make_trajectory(project=project, outcome="failure")

    value, note = tiles(admin)[EFFECT]

    assert value == "Cannot tell yet"
    assert "Set a hold-out" in note
    assert [label for label in tiles(admin) if "Success" in label] == []


@pytest.mark.parametrize(
    ("successes", "value", "note"),
    [(160, "+25.0 points", "95% interval +"), (110, "+0.0 points", "No effect found yet. 95% interval −")],
)
def test_effect_of_lessons_is_that_of_the_hold_out(admin: Client, successes: int, value: str, note: str) -> None:
    lesson = make_lesson()
    record_units(lesson, arm="holdout", success=110, failure=90)
    record_units(lesson, success=successes, failure=200 - successes)

    shown = tiles(admin)[EFFECT]

    assert shown[0] == value
    assert note in shown[1]


def test_effect_of_lessons_leaves_out_work_that_chance_did_not_divide(admin: Client) -> None:
    lesson = make_lesson()
    record_units(lesson, family="orders", success=300)
    Retrieval.objects.update(deployment_version=0)  # before there was a hold-out
    record_units(lesson, arm="holdout", success=50, failure=50)
    record_units(lesson, success=200, failure=200)

    assert tiles(admin)[EFFECT][0] == "+0.0 points"


def test_home_leads_to_work_and_lists_no_tables(admin: Client) -> None:
    """It had 13 equal tiles, 21 links to tables and no project switcher."""
    approve_as_read(make_heuristic(project=make_project()), by=ROOT)
    make_heuristic(project=make_project())

    html = home(admin)

    assert len(tiles(admin)) == 3
    assert html.count("<polyline") == 2
    assert [said for said in ("Start reviewing", "Your decisions", "All my projects") if said not in html] == []
    assert "app-memory" not in html
    assert "recent-actions" not in html


def test_state_is_that_of_the_chosen_project(admin: Client) -> None:
    one, other = (make_reflection(status="dead", finished_at=timezone.now()) for _ in range(2))
    assert one.project_id != other.project_id
    admin.post("/admin/project/", {"project": str(one.project_id)})

    figures = {figure.label: figure.value for figure in admin.get("/admin/").context["figures"]}

    assert figures["reflection failed"] == "1"


def test_home_lists_own_decisions_and_no_others(admin: Client) -> None:
    project = make_project()
    approve_as_read(make_heuristic(project=project, trigger="mine"), by=ROOT)
    reject_heuristic(make_heuristic(project=project, trigger="theirs"), by=Actor(label="user:ana"), reason="no")

    decided = [str(review.heuristic) for review in admin.get("/admin/").context["decided"]]

    assert [text for text in decided if "mine" in text] == decided
    assert len(decided) == 1


def test_first_steps_are_ticked_and_disappear_when_all_are_done(admin: Client) -> None:
    project = make_project()
    steps = {step["label"]: step["is_done"] for step in admin.get("/admin/").context["steps"]}
    assert set(steps.values()) == {False}
    make_api_key(project=project)
    heuristic = make_heuristic(project=project)
    approve_as_read(heuristic, by=ROOT)
    given = make_retrieval(project=project, heuristic_ids=[heuristic.pk])
    assert [step["label"] for step in admin.get("/admin/").context["steps"] if not step["is_done"]] == [
        "Record a run",
        "Report the outcome",
    ]

    make_trajectory(project=project, retrieval=given, outcome="success", score=1)

    assert "First steps" not in home(admin)


def test_person_without_a_project_is_told_what_to_do(client: Client) -> None:
    make_project()
    client.force_login(get_user_model().objects.create_user("eve", is_staff=True))

    html = home(client)

    assert "not a member of any project yet" in html
    assert "eve" in html
    assert "First steps" not in html


def test_person_without_permissions_sees_no_numbers(client: Client) -> None:
    project = make_project()
    make_heuristic(project=project)
    client.force_login(make_member(project=project, permissions=[]))

    shown = client.get("/admin/").context

    assert (shown["waiting"], shown["tiles"], shown["decided"], shown["steps"]) == ([], [], [], [])


def test_home_escapes_the_words_of_lessons(admin: Client) -> None:
    words = "<img src=x onerror=alert(1)>"
    approve_as_read(make_heuristic(trigger=words), by=ROOT)

    html = home(admin)

    assert escape(words) in html
    assert words not in html
