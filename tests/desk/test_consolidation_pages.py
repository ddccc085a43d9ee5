"""Consolidations in the admin: what they found and cost, and deciding on their suggestions with one click."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memory.curation.reviewers import take_over_heuristic
from memory.effects.uses import count_uses
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from reflection.consolidation.models import ConsolidationRun, Suggestion
from tests.factories import make_heuristic, make_member, make_project

pytestmark = pytest.mark.django_db

Kind = Suggestion.Kind
RIGHTS = ("review_heuristic", "view_heuristic", "view_suggestion", "view_consolidationrun")
TEXT: dict[str, Any] = {"trigger": "When a flight has to be changed", "polarity": "works", "task_id": "airline"}


@pytest.fixture
def reviewer(client: Client) -> Client:
    client.force_login(make_member("ana", permissions=RIGHTS))
    return client


def make_run(project: Project, **overrides: Any) -> ConsolidationRun:
    now = timezone.now()
    fields: dict[str, Any] = {
        "project": project,
        "status": "done",
        "finished_at": now,
        "payload": {"cause": "command", "until": now.isoformat()},
        "result": {"method": "rules"},
    }
    return ConsolidationRun.objects.create(**fields | overrides)  # type: ignore[misc]  # of fields in any order


def suggest(heuristic: Heuristic, kind: str, *, other: Heuristic | None = None, **overrides: Any) -> Suggestion:
    revision = heuristic.current_revision
    assert revision is not None
    number = Suggestion.objects.count()
    fields: dict[str, Any] = {
        "run": make_run(heuristic.project),
        "content_sha256": HeuristicRevision.objects.get(pk=revision.pk).content_sha256,
        "reason": "It is said twice.",
        "method": "rules",
        "fingerprint": f"{number:064d}",
    }
    if other is not None and other.current_revision is not None:
        fields["other_sha256"] = HeuristicRevision.objects.get(pk=other.current_revision.pk).content_sha256
    return Suggestion.objects.create(
        project=heuristic.project, heuristic=heuristic, kind=kind, other=other, **fields | overrides
    )


def approved(**text: Any) -> Heuristic:
    return make_heuristic(status=Heuristic.Status.APPROVED, **TEXT | text)


def decide(client: Client, suggestion: Suggestion, decision: str = "accept") -> Any:
    page = reverse("admin:inbox_item", args=["suggestion", suggestion.pk])
    return client.post(page, {"decision": decision}, follow=True)


def test_merge_is_carried_out_with_one_click(reviewer: Client) -> None:
    kept = approved(guideline="Read the fare rules first.")
    repeated = make_heuristic(project=kept.project, guideline="First read the fare rules.", **TEXT)
    suggestion = suggest(repeated, Kind.MERGE, other=kept)

    answer = decide(reviewer, suggestion)

    assert "Merged." in answer.content.decode()
    repeated.refresh_from_db()
    suggestion.refresh_from_db()
    assert (repeated.status, repeated.superseded_by) == (Heuristic.Status.SUPERSEDED, kept)
    assert (suggestion.status, suggestion.decided_by) == ("accepted", "user:ana")
    assert Review.objects.get().reason == "It is said twice."


def test_narrower_words_of_an_approved_lesson_are_served_at_once(reviewer: Client) -> None:
    heuristic = approved()
    assert heuristic.current_revision is not None
    text = replace(heuristic.current_revision.as_text(), not_when="the fare is flexible")

    decide(reviewer, suggest(heuristic, Kind.NARROW, text=asdict(text)))

    served = HeuristicRevision.objects.get(heuristic=heuristic, served=True)
    assert (served.not_when, served.approved_by) == ("the fare is flexible", "user:ana")


@pytest.mark.parametrize(
    ("status", "after"), [("approved", Heuristic.Status.RETIRED), ("proposed", Heuristic.Status.REJECTED)]
)
def test_retirement_takes_a_lesson_out_of_use(reviewer: Client, status: str, after: str) -> None:
    heuristic = make_heuristic(status=status, **TEXT)

    decide(reviewer, suggest(heuristic, Kind.RETIRE))

    heuristic.refresh_from_db()
    assert heuristic.status == after


def test_dismissed_it_changes_nothing(reviewer: Client) -> None:
    heuristic = approved()
    suggestion = suggest(heuristic, Kind.RETIRE)

    decide(reviewer, suggestion, "dismiss")

    heuristic.refresh_from_db()
    suggestion.refresh_from_db()
    assert (heuristic.status, suggestion.status) == (Heuristic.Status.APPROVED, "dismissed")


def test_changed_words_are_not_decided_on(reviewer: Client) -> None:
    heuristic = approved()
    suggestion = suggest(heuristic, Kind.RETIRE, content_sha256="0" * 64)

    answer = decide(reviewer, suggestion)

    assert "words have changed since this suggestion was made" in answer.content.decode()
    heuristic.refresh_from_db()
    suggestion.refresh_from_db()
    assert (heuristic.status, suggestion.status) == (Heuristic.Status.APPROVED, "open")


def test_decided_twice_it_is_refused(reviewer: Client) -> None:
    suggestion = suggest(approved(), Kind.RETIRE)
    decide(reviewer, suggestion)

    assert "nothing was changed" in decide(reviewer, suggestion).content.decode()
    assert Review.objects.count() == 1


def test_without_the_right_nobody_decides(client: Client) -> None:
    suggestion = suggest(approved(), Kind.RETIRE)
    client.force_login(make_member("eva", role="auditor", permissions=RIGHTS))

    assert decide(client, suggestion).status_code == 403
    suggestion.refresh_from_db()
    assert suggestion.status == "open"


def test_suggestion_of_a_project_of_others_is_not_found(client: Client) -> None:
    suggestion = suggest(approved(), Kind.RETIRE)
    client.force_login(make_member("ana", project=make_project(), permissions=RIGHTS))

    answer = decide(client, suggestion).content.decode()

    suggestion.refresh_from_db()
    assert suggestion.status == Suggestion.Status.OPEN
    assert "Nothing was changed." in answer
    assert "It is said twice." not in answer
    page = client.get(reverse("admin:reflection_suggestion_change", args=[suggestion.pk]))
    assert page.status_code == 302


def test_desk_shows_what_is_suggested_and_what_its_use_was(reviewer: Client) -> None:
    heuristic = approved()
    suggest(heuristic, Kind.RETIRE, reason="All 3 runs that followed it failed.")
    Heuristic.objects.filter(pk=heuristic.pk).update(
        usefulness=0.42, usefulness_basis=count_uses([]) | {"runs": 3, "clients": 2}
    )

    tabs = [reverse("admin:inbox_tab", args=["lesson", heuristic.pk, name]) for name in ("similar", "effect")]
    page = "".join(reviewer.get(tab).content.decode() for tab in tabs)

    assert "All 3 runs that followed it failed." in page
    assert "usefulness is 0.42" in page


def test_run_shows_what_it_saved_and_cost(reviewer: Client) -> None:
    heuristic = approved()
    run = make_run(
        heuristic.project,
        result={"items_before": 12, "items_after": 9, "fallback": "No key is set."},
        input_tokens=700,
        output_tokens=30,
    )
    suggest(heuristic, Kind.RETIRE, run=run)

    page = reviewer.get(reverse("admin:reflection_consolidationrun_change", args=[run.pk])).content.decode()

    assert "12 → 9" in page
    assert "700 in, 30 out" in page
    assert "No key is set." in page
    assert "<li><details><summary>" in page  # a line each until it is opened: the page was 22,860 px long
    assert f"/admin/inbox/?kind=suggestion&amp;run={run.pk}" in page


def _count_queries(client: Client, page: str) -> int:
    client.get(page)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert client.get(page).status_code == 200
    return len(queries)


@pytest.mark.parametrize("model", ["suggestion", "consolidationrun"])
def test_lists_take_the_same_queries_for_many(reviewer: Client, model: str) -> None:
    page = reverse(f"admin:reflection_{model}_changelist")
    first = approved()
    suggest(first, Kind.RETIRE)
    few = _count_queries(reviewer, page)
    for _ in range(6):
        suggest(make_heuristic(project=first.project, **TEXT), Kind.MERGE, other=first)

    assert _count_queries(reviewer, page) == few


def test_suggestions_have_keys_and_a_next_one(reviewer: Client) -> None:
    first = approved()
    newer = [suggest(make_heuristic(project=first.project, **TEXT), Kind.RETIRE) for _ in range(2)][-1]

    html = reviewer.get("/admin/inbox/?kind=suggestion").content.decode()

    assert f'name="next" value="suggestion/{newer.pk}"' in html
    assert ('aria-keyshortcuts="a"' in html, 'aria-keyshortcuts="r"' in html) == (True, True)


def test_dismissed_suggestion_is_brought_back_in_the_inbox(reviewer: Client) -> None:
    suggestion = suggest(approved(guideline="Read the fare rules first."), Kind.RETIRE)
    at = reverse("admin:inbox_item", args=["suggestion", suggestion.pk])
    assert "It is said twice." in reviewer.get("/admin/inbox/?kind=suggestion").content.decode()

    answer = reviewer.post(at, {"decision": "dismiss"}, headers={"Accept": "application/json"}).json()
    suggestion.refresh_from_db()
    assert suggestion.status == "dismissed"
    sent = {"kind": "suggestion", "item": f"suggestion/{suggestion.pk}", "token": answer["undo"]}
    reviewer.post(reverse("admin:inbox_undo"), sent)

    suggestion.refresh_from_db()
    assert (suggestion.status, suggestion.decided_by) == ("open", "")


def test_suggestion_about_a_claimed_lesson_offers_no_merge(reviewer: Client) -> None:
    kept = approved(guideline="Read the fare rules first.")
    repeated = make_heuristic(project=kept.project, guideline="First read the fare rules.", **TEXT)
    suggestion = suggest(repeated, Kind.MERGE, other=kept)
    take_over_heuristic(repeated, by=Actor.person(make_member("ben")))

    html = reviewer.get(reverse("admin:inbox_item", args=["suggestion", suggestion.pk])).content.decode()

    assert "Claimed by ben." in html
    assert 'value="accept"' not in html
