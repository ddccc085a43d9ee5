"""Releases: cut, deployed, served by arm, rolled back; and never a way round a quarantine."""

from dataclasses import replace
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from memory.curation.decisions import quarantine_heuristic, reject_heuristic, retire_heuristic
from memory.curation.proposals import revise_heuristic
from memory.curation.undo import undo_review
from memory.errors import NotDeployable
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.models import Project
from memory.releases.deployments import (
    DeploymentChange,
    change_deployment,
    cut_release,
    get_deployment,
    get_release,
    promote,
    roll_back,
    start_canary,
)
from memory.releases.diff import diff_releases
from memory.releases.manifest import hash_manifest
from memory.releases.models import Deployment, DeploymentEvent, Release, ReleaseMember
from memory.releases.readiness import KEPT_READY
from memory.retrieval.models import Retrieval
from memory.retrieval.replay import replay_block
from memory.review.models import Review
from memory.trust.invariants import find_violations
from memory.trust.models import AuditEntry
from tests.factories import approve_as_read, make_heuristic, make_project, make_rule
from tests.releases import BY, ask, get_guidelines, make_lesson, serve_releases

pytestmark = pytest.mark.django_db
FIRST, SECOND = "Check the fare class.", "Offer a later flight."


@pytest.fixture
def project() -> Project:
    return make_project()


@pytest.fixture
def lesson(project: Project) -> Heuristic:
    return make_lesson(project, FIRST)


def reword(heuristic: Heuristic, guideline: str) -> None:
    current = heuristic.current_revision
    assert current is not None
    text = replace(current.as_text(), guideline=guideline)
    revise_heuristic(heuristic, text=text, by=BY, content_sha256=current.content_sha256)
    approve(heuristic)


def approve(heuristic: Heuristic) -> None:
    approve_as_read(heuristic, by=BY)
    embed_heuristics([heuristic.pk])


def find_broken() -> list[str]:
    """Return the broken rules about what is served; rows of tests have no reviews."""
    names = {violation.invariant.name for violation in find_violations()}
    return sorted(names & {"vectors_follow_service", "status_agrees_with_service", "nothing_covered_is_served"})


def test_approval_waits_for_the_next_release(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    waiting = make_heuristic(project=project, trigger="A customer asks to cancel a flight", guideline=SECOND)

    approve(waiting)

    assert get_guidelines(project) == [FIRST]
    release = cut_release(project, by=BY)
    assert get_guidelines(project) == [FIRST]
    promote(project, by=BY, release=release)
    assert get_guidelines(project) == [FIRST, SECOND]


def test_two_wordings_of_one_lesson_are_served_by_arm(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    reword(lesson, SECOND)
    start_canary(project, release=cut_release(project, by=BY), share=500, by=BY)

    answers = [ask(project, session=f"s{number}") for number in range(40)]

    assert {(answer.arm, answer.release, answer.items[0]["guideline"]) for answer in answers} == {
        ("stable", 1, FIRST),
        ("candidate", 2, SECOND),
    }


def test_rules_of_the_record_are_those_of_the_release(project: Project) -> None:
    rule = make_lesson(project, FIRST, task_id="air", tags=["rule"])
    serve_releases(project)
    reword(rule, SECOND)
    start_canary(project, release=cut_release(project, by=BY), share=1000, by=BY)

    blocks = [ask(project, task_id="air", record=True, release_id=get_release(project, name).pk) for name in "12"]

    assert [(FIRST[:-1] in block.context, SECOND[:-1] in block.context) for block in blocks] == [
        (True, False),
        (False, True),
    ]
    assert SECOND[:-1] in ask(project, task_id="air", record=True).context


def test_many_new_rules_of_the_candidate_leave_the_stable_release_its_own(project: Project) -> None:
    make_lesson(project, FIRST, task_id="air", tags=["rule"])
    serve_releases(project)
    rule: dict[str, Any] = {"project": project, "status": "approved", "task_id": "air", "tags": ["rule"]}
    embed_heuristics([make_heuristic(**rule, guideline=SECOND).pk for _ in range(51)])
    start_canary(project, release=cut_release(project, by=BY), share=1000, by=BY)

    block = ask(project, task_id="air", record=True, release_id=get_release(project, "1").pk)

    assert FIRST[:-1] in block.context.partition("</record>")[0]


def test_roll_back_returns_to_the_release_before(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    reword(lesson, SECOND)
    promote(project, by=BY, release=cut_release(project, by=BY))
    assert get_guidelines(project) == [SECOND]

    deployment = roll_back(project, by=BY, reason="worse")

    assert get_guidelines(project) == [FIRST]
    assert (deployment.stable, deployment.previous) == (get_release(project, "1"), None)
    event = DeploymentEvent.objects.filter(project=project).order_by("-version")[0]
    assert (event.kind, event.reason, event.made_by) == ("rolled_back", "worse", BY.label)


def test_roll_back_twice_goes_two_releases_back(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    for guideline in (SECOND, "Ask a person."):
        reword(lesson, guideline)
        lesson.refresh_from_db()
        promote(project, by=BY, release=cut_release(project, by=BY))

    stable = [roll_back(project, by=BY).stable for _ in range(2)]

    assert stable == [get_release(project, "2"), get_release(project, "1")]
    with pytest.raises(NotDeployable, match="No release was stable before"):
        roll_back(project, by=BY)


def test_release_that_was_never_stable_is_nothing_to_roll_back_to(project: Project, lesson: Heuristic) -> None:
    """An archived project may be rolled back, but nothing new is deployed in it."""
    serve_releases(project)
    reword(lesson, SECOND)
    newer = cut_release(project, by=BY)
    Project.objects.filter(pk=project.pk).update(archived_at=timezone.now())

    with pytest.raises(NotDeployable, match="never stable"):
        roll_back(project, by=BY, to=newer)


def test_roll_back_ends_a_canary_first(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    reword(lesson, SECOND)
    start_canary(project, release=cut_release(project, by=BY), share=1000, by=BY)
    assert get_guidelines(project) == [SECOND]

    deployment = roll_back(project, by=BY)

    assert (deployment.stable, deployment.candidate) == (get_release(project, "1"), None)
    assert deployment.canary_share == 0
    assert get_guidelines(project) == [FIRST]


def test_held_out_unit_gets_nothing_and_is_recorded(project: Project, lesson: Heuristic) -> None:
    serve_releases(project, holdout_share=1000)

    answer = ask(project, session="s1", record=True)

    assert (answer.context, answer.items, answer.arm, answer.release) == ("", [], "holdout", 1)
    row = Retrieval.objects.get(pk=answer.retrieval_id)
    assert (row.arm, row.injected_ids, row.unit, row.deployment_version) == ("holdout", [], "session:s1", 1)
    assert row.bucket is not None


def test_hold_out_names_the_lessons_that_it_withheld(project: Project, lesson: Heuristic) -> None:
    """So each lesson is compared with the units that would have been given it."""
    rule = make_rule(project=project, task_id="airline.cancel", guideline="Never refund in cash.")
    asked = {"session": "s1", "task_id": "airline.cancel", "record": True}
    serve_releases(project)
    given = ask(project, **asked)  # kept, and known when the hold-out is asked
    change_deployment(project, by=BY, change=DeploymentChange(holdout_share=1000))

    answer = ask(project, **asked)

    row = Retrieval.objects.get(pk=answer.retrieval_id)
    assert (answer.arm, answer.context, answer.items, row.items, row.record_text) == ("holdout", "", [], [], "")
    assert set(row.considered_ids) == {lesson.pk, rule.pk}
    assert set(row.considered_ids) == set(Retrieval.objects.get(pk=given.retrieval_id).injected_ids)
    assert len(row.considered_scores) == 2


def test_hold_out_works_where_every_approval_is_live(project: Project, lesson: Heuristic) -> None:
    change_deployment(project, by=BY, change=DeploymentChange(holdout_share=500))

    answers = [ask(project, session=f"s{number}") for number in range(40)]

    assert {(answer.arm, answer.release, len(answer.items)) for answer in answers} == {
        ("holdout", None, 0),
        ("stable", None, 1),
    }


def test_project_without_a_deployment_assigns_nothing(project: Project, lesson: Heuristic) -> None:
    answer = ask(project, session="s1")

    row = Retrieval.objects.get(pk=answer.retrieval_id)
    assert (row.arm, row.release, row.unit, row.bucket, row.deployment_version) == ("", None, "", None, None)


def test_same_content_is_the_same_release(project: Project, lesson: Heuristic) -> None:
    first = cut_release(project, by=BY)

    assert cut_release(project, by=BY) == first
    assert first.sha256 == hash_manifest(Release.objects.get(pk=first.pk).manifest)
    assert Release.objects.count() == 1


def test_release_cannot_be_changed_or_deleted(project: Project, lesson: Heuristic) -> None:
    release = cut_release(project, by=BY)

    for statement in ("UPDATE memory_release SET note = 'x' WHERE id = %s", "DELETE FROM memory_release WHERE id = %s"):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, [release.pk])


def test_quarantined_lesson_leaves_every_release_at_once(project: Project, lesson: Heuristic) -> None:
    other = make_lesson(project, SECOND)
    serve_releases(project)
    reword(lesson, "Ask a person.")  # the stable release has other words than those approved now

    quarantine_heuristic(lesson, by=BY)

    assert get_guidelines(project) == [SECOND]
    assert not HeuristicRevision.objects.filter(heuristic=lesson, live=True).exists()
    assert find_broken() == []
    assert other.revisions.get().live


def test_lesson_that_only_a_release_gives_can_be_quarantined(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    retire_heuristic(lesson, by=BY)
    assert get_guidelines(project) == [FIRST]

    quarantine_heuristic(lesson, by=BY)

    assert get_guidelines(project) == []


def test_lesson_whose_new_words_were_rejected_can_be_quarantined(project: Project, lesson: Heuristic) -> None:
    """A release still gives its old words; an order on their source must not fail because of it."""
    serve_releases(project)
    retire_heuristic(lesson, by=BY)
    lesson.refresh_from_db()
    assert lesson.current_revision is not None
    revise_heuristic(lesson, text=replace(lesson.current_revision.as_text(), guideline=SECOND), by=BY)
    reject_heuristic(lesson, by=BY)
    assert get_guidelines(project) == [FIRST]

    quarantine_heuristic(lesson, by=BY)

    assert get_guidelines(project) == []
    assert find_broken() == []


def test_other_words_do_not_bring_quarantined_ones_back(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    quarantine_heuristic(lesson, by=BY)
    lesson.refresh_from_db()
    reword(lesson, SECOND)

    release = cut_release(project, by=BY)

    assert get_guidelines(project) == []
    promote(project, by=BY, release=release)
    assert get_guidelines(project) == [SECOND]
    roll_back(project, by=BY)
    assert get_guidelines(project) == []


def test_undone_quarantine_is_served_again(project: Project) -> None:
    lesson = make_heuristic(project=project, trigger="A customer asks to cancel a flight", guideline=FIRST)
    approve(lesson)
    serve_releases(project)
    quarantine_heuristic(lesson, by=BY)

    undo_review(Review.objects.filter(heuristic=lesson).latest("created_at"), by=BY)

    assert get_guidelines(project) == [FIRST]


def test_database_refuses_a_quarantined_lesson_that_is_live(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    quarantine_heuristic(lesson, by=BY)

    HeuristicRevision.objects.filter(heuristic=lesson).update(live=True)

    assert not HeuristicRevision.objects.filter(heuristic=lesson, live=True).exists()


def test_retired_lesson_stays_until_the_next_release(project: Project, lesson: Heuristic) -> None:
    make_lesson(project, SECOND)
    serve_releases(project)

    retire_heuristic(lesson, by=BY)

    assert get_guidelines(project) == [FIRST, SECOND]
    promote(project, by=BY, release=cut_release(project, by=BY))
    assert get_guidelines(project) == [SECOND]
    assert find_broken() == []


def test_back_to_continuous_serves_what_is_approved(project: Project, lesson: Heuristic) -> None:
    gone = make_lesson(project, "Never refund.")
    serve_releases(project)
    reword(lesson, SECOND)
    retire_heuristic(gone, by=BY)

    change_deployment(project, by=BY, change=DeploymentChange(mode=Deployment.Mode.CONTINUOUS))

    assert get_guidelines(project) == [SECOND]
    assert not ReleaseMember.objects.exists()
    assert find_broken() == []


def test_release_fixes_how_lessons_are_chosen(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        make_lesson(project, f"Do {number}.", trigger=f"A customer asks to cancel basic economy flight {number}")
    monkeypatch.setattr("memory.releases.manifest.DEFAULT_TOP_K", 2)
    serve_releases(project)
    monkeypatch.setattr("memory.releases.manifest.DEFAULT_TOP_K", 1)
    monkeypatch.setattr("memory.retrieval.answers.DEFAULT_TOP_K", 1)

    answer = ask(project)

    assert len(answer.items) == 2
    assert Retrieval.objects.get(pk=answer.retrieval_id).top_k == 2


def test_old_release_is_let_go_and_can_still_return(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    for number in range(KEPT_READY + 2):
        lesson.refresh_from_db()
        reword(lesson, f"Wording {number}.")
        promote(project, by=BY, release=cut_release(project, by=BY))
    first = get_release(project, "1")
    assert not ReleaseMember.objects.filter(release=first).exists()
    assert not lesson.revisions.get(number=1).live

    roll_back(project, by=BY, to=first)

    assert get_guidelines(project) == [FIRST]
    assert get_deployment(project).stable == first


def test_diff_names_what_was_added_removed_and_reworded(project: Project, lesson: Heuristic) -> None:
    gone = make_lesson(project, "Never refund.")
    before = cut_release(project, by=BY)
    reword(lesson, SECOND)
    retire_heuristic(gone, by=BY)
    added = make_lesson(project, "Be polite.")

    diff = diff_releases(before, cut_release(project, by=BY))

    assert [tuple(word.guideline for word in (one.before, one.after) if word) for one in diff.reworded] == [
        (FIRST, SECOND)
    ]
    assert [one.heuristic_id for one in diff.added] == [added.pk]
    assert [one.before for one in diff.removed] == [gone.revisions.get()]
    assert (diff.settings, diff.unchanged) == ([], 0)


def test_changes_are_in_the_audit_chain(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    reword(lesson, SECOND)
    start_canary(project, release=cut_release(project, by=BY), share=100, by=BY)
    promote(project, by=BY)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    kinds = AuditEntry.objects.filter(project_id=project.pk).order_by("number").values_list("kind", flat=True)

    wanted = ("release_cut", "deployment_settings", "deployment_canary", "deployment_promoted")
    assert [kind for kind in kinds if kind in wanted] == [
        "release_cut",
        "deployment_settings",
        "release_cut",
        "deployment_canary",
        "deployment_promoted",
    ]


def test_block_of_an_old_answer_is_rebuilt_from_its_release(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    answer = ask(project, record=True)
    reword(lesson, SECOND)
    promote(project, by=BY, release=cut_release(project, by=BY))

    replayed = replay_block(Retrieval.objects.get(pk=answer.retrieval_id))

    assert (replayed.text, replayed.exact) == (answer.context, True)


def test_canary_needs_releases(project: Project, lesson: Heuristic) -> None:
    release = cut_release(project, by=BY)

    with pytest.raises(NotDeployable, match="serves every approval at once"):
        start_canary(project, release=release, share=10, by=BY)


def test_wider_canary_keeps_its_units(project: Project, lesson: Heuristic) -> None:
    serve_releases(project)
    reword(lesson, SECOND)
    release = cut_release(project, by=BY)
    start_canary(project, release=release, share=300, by=BY)
    units = [f"s{number}" for number in range(40)]
    tried = {unit for unit in units if ask(project, session=unit).arm == "candidate"}

    start_canary(project, release=release, share=600, by=BY)

    assert tried < {unit for unit in units if ask(project, session=unit).arm == "candidate"}


def test_release_names_the_versions_of_the_prompts(project: Project) -> None:
    versions = cut_release(project, by=BY).manifest["prompt_versions"]

    assert versions["reflect-failure"].startswith("reflect-failure/")
    assert versions["rank-lessons"].startswith("rank-lessons/")
