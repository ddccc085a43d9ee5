"""The frame of the admin: what the navigation offers, the chosen project, lists on a phone, the search."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.urls import reverse

from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from memory.projects.models import Project, ProjectMembership
from memory.runs.models import Trajectory
from memory.runs.search import with_words
from memory.trust.erasure import erase_trajectory
from memory.trust.models import Erasure
from tests.factories import approve_as_read, make_api_key, make_heuristic, make_member, make_project, make_trajectory

pytestmark = pytest.mark.django_db

STEPS = [
    {"index": 1, "thought": "First look up the order.", "action": {"name": "get_order_details", "arguments": {}}},
    {"index": 2, "observation": "The courier lost parcel ZX-81 near Łódź."},
]


def choose(client: Client, project: Project | str, back: str = "") -> Any:
    chosen = project if isinstance(project, str) else project.pk
    return client.post(reverse("admin:choose_project"), {"project": chosen, "next": back})


def sections(client: Client, path: str = "/admin/") -> dict[str, list[str]]:
    frame = client.get(path).context["frame"]
    return {section.label: [page.label for page in section.pages] for section in frame["sections"]}


def titles(client: Client, words: str, **headers: str) -> list[str]:
    answer = client.get(reverse("admin:search"), {"q": words}, headers=headers)
    return [hit.title for kind in answer.context["found"] for hit in kind.hits if kind.label != "Pages"]


# ── Navigation ────────────────────────────────────────────────────────────────────────────────────────────────────
def test_superuser_finds_seven_sections(admin_client: Client) -> None:
    found = sections(admin_client)

    assert list(found) == ["Inbox", "Lessons", "Runs", "Agents", "Insights", "Evaluate", "Settings"]
    assert "All tables" in found["Settings"]


def test_every_entry_of_the_navigation_opens_and_is_marked(admin_client: Client) -> None:
    make_project()
    frame = admin_client.get("/admin/").context["frame"]
    pages = [page for section in frame["sections"] for page in section.pages if page.label != "API docs"]

    marked = {}
    for page in pages:
        shown = admin_client.get(page.link).context["frame"]["sections"]
        marked[page.label] = [one.label for section in shown for one in section.pages if one.current]

    assert marked == {page.label: [page.label] for page in pages}


def test_navigation_offers_only_what_a_person_may_open(client: Client) -> None:
    client.force_login(make_member(project=make_project(), permissions=["view_trajectory"]))

    found = sections(client)

    assert found["Runs"] == ["Runs"]
    assert "Lessons" not in found
    assert found["Settings"] == ["API docs"]


def test_list_of_tables_is_for_superusers(client: Client) -> None:
    client.force_login(make_member(project=make_project(), permissions=["view_trajectory"]))

    assert client.get(reverse("admin:tables")).status_code == 403


@pytest.mark.parametrize("page", ["index", "insights", "memory_trajectory_changelist", "memory_apikey_changelist"])
def test_page_asks_for_little_once_its_files_are_known(admin_client: Client, page: str) -> None:
    make_api_key()
    html = admin_client.get(reverse(f"admin:{page}")).content.decode()

    loads = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', html)

    assert len(loads) > 5
    # The others are kept for ever: tests/erl_site/test_static_files.py.
    assert len([address for address in loads if not address.startswith(settings.STATIC_URL)]) <= 1
    assert "<style" not in html


# ── The chosen project ────────────────────────────────────────────────────────────────────────────────────────────
def test_chosen_project_narrows_every_list(admin_client: Client) -> None:
    one, other = make_project(), make_project()
    make_trajectory(project=one)
    make_trajectory(project=other)
    make_heuristic(project=other)
    make_api_key(project=other)

    choose(admin_client, one)

    tables = ("memory_trajectory", "memory_heuristic", "memory_apikey")
    counts = [admin_client.get(reverse(f"admin:{each}_changelist")).context["cl"].result_count for each in tables]
    assert counts == [1, 0, 0]
    choose(admin_client, "")
    assert admin_client.get(reverse("admin:memory_trajectory_changelist")).context["cl"].result_count == 2


def test_chosen_project_narrows_the_statistics_of_reviewers(admin_client: Client) -> None:
    approve_as_read(make_heuristic(project=make_project()), by=Actor(label="user:ana"))
    page = reverse("admin:memory_review_statistics")
    assert admin_client.get(page).context["decided"] == 1

    choose(admin_client, make_project())

    assert admin_client.get(page).context["decided"] == 0


def test_chosen_project_hides_no_row_that_a_link_leads_to(admin_client: Client) -> None:
    run = make_trajectory(project=make_project())
    choose(admin_client, make_project())

    assert admin_client.get(reverse("admin:memory_trajectory_change", args=[run.pk])).status_code == 200


def test_project_named_in_an_address_goes_before_the_choice(admin_client: Client) -> None:
    run = make_trajectory(project=make_project())
    choose(admin_client, make_project())

    shown = admin_client.get(f"{reverse('admin:memory_trajectory_changelist')}?project__id__exact={run.project_id}")

    assert shown.context["cl"].result_count == 1


@pytest.mark.parametrize("wanted", ["other", "not-an-id", "\x00"])
def test_project_of_others_cannot_be_chosen(client: Client, wanted: str) -> None:
    other = make_project()
    make_trajectory(project=other)
    client.force_login(make_member(project=make_project(), permissions=["view_trajectory"]))

    choose(client, str(other.pk) if wanted == "other" else wanted)

    shown = client.get(reverse("admin:memory_trajectory_changelist"))
    assert (shown.context["frame"]["project"], shown.context["cl"].result_count) == (None, 0)


def test_project_that_a_person_left_is_no_longer_chosen(client: Client) -> None:
    project = make_project()
    user = make_member(project=project, permissions=["view_trajectory"])
    client.force_login(user)
    choose(client, project)
    ProjectMembership.objects.all().delete()

    assert client.get("/admin/").context["frame"]["project"] is None


def test_choice_of_a_project_leads_back_but_to_no_other_site(admin_client: Client) -> None:
    project = make_project()

    assert choose(admin_client, project, "/admin/memory/release/").headers["Location"] == "/admin/memory/release/"
    assert choose(admin_client, project, "https://elsewhere.example/").headers["Location"] == "/admin/"
    assert admin_client.get(reverse("admin:choose_project")).status_code == 405


# ── Lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_cells_of_a_list_are_named_for_a_phone(admin_client: Client) -> None:
    make_trajectory(task_id='"><img src=x>')

    html = admin_client.get(reverse("admin:memory_trajectory_changelist")).content.decode()

    assert '<td data-label="Outcome" class="field-outcome">' in html
    assert '<td data-label="Task family"' in html
    assert "<img src=x>" not in html


def test_filters_fold_and_say_what_they_are_set_to(admin_client: Client) -> None:
    make_trajectory()

    html = admin_client.get(reverse("admin:memory_trajectory_changelist"), {"outcome__exact": "failure"}).content

    assert b'<details class="filters">' in html
    assert b'<span class="chip">outcome: Failure</span>' in html


def test_empty_list_says_why(admin_client: Client) -> None:
    page = reverse("admin:memory_trajectory_changelist")

    assert b"No run has been recorded yet." in admin_client.get(page).content
    assert b"Nothing matches." in admin_client.get(page, {"q": "absent"}).content


def test_every_list_says_why_it_is_empty() -> None:
    silent = [model._meta.label for model, each in admin.site._registry.items() if not hasattr(each, "nothing_yet")]

    assert sorted(silent) == ["auth.Group", "auth.User", "memory.Project"]  # never empty


def test_lists_of_records_name_people_and_projects(admin_client: Client) -> None:
    run = make_trajectory(project=make_project(name="Airline"))
    erase_trajectory(run, by=Actor(label="user:ana"))
    page = reverse("admin:memory_erasure_changelist")
    row = reverse("admin:memory_erasure_change", args=[Erasure.objects.get().pk])

    shown = admin_client.get(page).content.decode() + admin_client.get(row).content.decode()

    assert shown.count(">ana<") == shown.count(">Airline<") == 2
    assert "user:ana" not in shown


def test_lists_without_an_entry_belong_to_a_section(admin_client: Client) -> None:
    shown = admin_client.get(reverse("admin:reflection_webhookdelivery_changelist"))

    assert shown.context["frame"]["section"].label == "Settings"
    assert b"<h1>Webhook deliveries</h1>" in shown.content


@pytest.mark.parametrize(
    ("kind", "where", "wanted"),
    [
        ("reflection", {"reflector": "rules"}, {"result": {"reflector": "rules"}}),
        ("consolidationrun", {"cause": "nightly", "method": "llm"}, {
            "payload": {"cause": "nightly"}, "result": {"method": "llm"}
        }),
        ("webhookdelivery", {"event": "webhook.test"}, {"payload": {"event": "webhook.test"}}),
    ],
)  # fmt: skip
def test_jobs_are_filtered_by_what_is_only_true_of_their_kind(
    admin_client: Client, kind: str, where: dict[str, str], wanted: dict[str, Any]
) -> None:
    model = apps.get_model("reflection", kind)
    run = make_trajectory()
    shown = model.objects.create(project=run.project, trajectory=run, subject="1", **wanted)
    model.objects.create(project=run.project, trajectory=run, subject="2")

    page = admin_client.get(reverse(f"admin:reflection_{kind}_changelist"), where)

    assert [row.pk for row in page.context["cl"].queryset] == [shown.pk]


# ── Search ────────────────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    "words", ["courier", "lost parcel", "ORDER details", "get_order_details", "zx-81", "cour", "łódź", "order courier"]
)
def test_search_finds_runs_by_their_steps(admin_client: Client, words: str) -> None:
    make_trajectory(task="Where is my parcel?", steps=STEPS)
    make_trajectory(task="Something else", steps=[{"index": 1, "thought": "Nothing of it."}])

    assert titles(admin_client, words) == ["Where is my parcel?"]


@pytest.mark.parametrize("words", ["couriers", "'", "& |", "a:*b\\", "\x00", "<b>", "thought index"])
def test_search_for_what_no_run_says_finds_none(admin_client: Client, words: str) -> None:
    make_trajectory(task="Where is my parcel?", steps=STEPS)

    assert titles(admin_client, words) == []


def test_search_shows_the_step_and_leads_there(admin_client: Client) -> None:
    run = make_trajectory(task="Where is my parcel?", steps=STEPS)

    html = admin_client.get(reverse("admin:search"), {"q": "courier"}).content.decode()

    assert f"{reverse('admin:memory_trajectory_change', args=[run.pk])}?q=courier#step-2" in html
    assert "The <mark>courier</mark> lost parcel" in html


def test_search_of_the_list_of_runs_reads_the_steps(admin_client: Client) -> None:
    run = make_trajectory(task="Where is my parcel?", steps=STEPS)
    make_trajectory(task="Something else")

    shown = admin_client.get(reverse("admin:memory_trajectory_changelist"), {"q": "courier"})

    assert [each.pk for each in shown.context["cl"].result_list] == [run.pk]


def test_search_uses_the_index_of_words() -> None:
    make_trajectory(steps=STEPS)

    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # of one run, reading it all is cheaper

    plan = with_words(Trajectory.objects.order_by(), "courier").explain()

    assert "memory_trajectory_words" in plan


def test_run_too_long_for_the_index_is_still_recorded(admin_client: Client) -> None:
    long = " ".join(f"ę{number:x}" for number in range(60_000))
    make_trajectory(task="A long run", steps=[{"index": n, "observation": long} for n in (1, 2, 3)])

    assert titles(admin_client, "ęa") == ["A long run"]


def test_search_finds_lessons_agents_and_pages(admin_client: Client) -> None:
    make_heuristic(trigger="a refund is asked for", guideline="Check the policy.")

    answer = admin_client.get(reverse("admin:search"), {"q": "refund policy"}, headers={"HX-Request": "true"})
    pages = admin_client.get(reverse("admin:search"), {"q": "webhooks"}).context["found"]

    assert b"a refund is asked for" in answer.content
    assert b"<html" not in answer.content
    assert [kind.label for kind in pages] == ["Pages"]


def test_search_shows_nothing_of_other_projects(client: Client) -> None:
    make_trajectory(project=make_project(), task="Theirs", steps=STEPS)
    make_heuristic(project=make_project(), trigger="the courier loses a parcel")
    client.force_login(make_member(project=make_project(), permissions=["view_trajectory", "view_heuristic"]))

    assert titles(client, "courier") == []


def test_search_shows_no_kind_that_a_person_may_not_view(client: Client) -> None:
    project = make_project()
    make_trajectory(project=project, steps=STEPS)
    make_heuristic(project=project, trigger="the courier loses a parcel")
    client.force_login(make_member(project=project, permissions=["view_trajectory"]))

    found = client.get(reverse("admin:search"), {"q": "courier"}).context["found"]

    assert [kind.label for kind in found] == ["Runs"]
    assert Heuristic.objects.count() == 1
