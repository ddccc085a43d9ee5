"""Shadow: what a candidate would have answered, worked out after the answer by a worker."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from evaluation.models import ShadowAnswer
from evaluation.shadow.jobs import KIND, queue_shadow_jobs, run_shadow
from evaluation.shadow.summary import ShadowReport, describe_shadow
from memory.curation.decisions import quarantine_heuristic
from memory.heuristics.models import Heuristic
from memory.projects.models import ApiKey, Project
from memory.releases.deployments import DeploymentChange, change_deployment, cut_release, promote, start_canary
from memory.releases.models import Release
from memory.retrieval.models import Retrieval
from reflection.jobs.models import Job
from runtime.models.changes import EvaluationRow
from tests.api.conftest import make_client
from tests.factories import make_api_key, make_member, make_project
from tests.releases import BY, ask, get_guidelines, make_lesson, serve_releases

pytestmark = pytest.mark.django_db


def try_in_shadow(*, share: int = 1000, per_minute: int = 60, canary: int = 0) -> tuple[Project, Release]:
    """Make a project whose candidate has one lesson more than its stable release, and compare them in shadow."""
    project = make_project()
    make_lesson(project, "Check the fare rules.")
    serve_releases(project, shadow_share=share, shadow_per_minute=per_minute)
    make_lesson(project, "Offer a travel credit.")
    candidate = cut_release(project, by=BY)
    start_canary(project, release=candidate, share=canary, by=BY)
    return project, candidate


def compare(*, minutes_ago: float = 2) -> None:
    """Let a worker compare the requests, which were made some time ago."""
    Retrieval.objects.update(created_at=timezone.now() - timedelta(minutes=minutes_ago))
    with connection.cursor() as cursor:  # the releases were cut before the requests
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE memory_release SET created_at = created_at - interval '1 day'")
        cursor.execute("SET LOCAL session_replication_role = origin")
    queue_shadow_jobs()
    job = run_shadow(owner="test")
    assert job is not None
    assert (job.status, job.last_error) == (Job.Status.DONE, "")


def report_on(project: Project) -> ShadowReport:
    report = describe_shadow(project)
    assert report is not None
    return report


def test_shadow_says_which_lesson_the_candidate_adds_in_which_family() -> None:
    project, candidate = try_in_shadow()
    ask(project, task_id="airline")

    compare()

    report = report_on(project)
    assert (report.candidate, report.compared, report.differing) == (candidate, 1, 1)
    (family,) = report.families
    assert (family["family"], family["compared"], family["differing"]) == ("airline", 1, 1)
    assert [(one["change"], one["answers"]) for one in family["lessons"]] == [("added", 1)]
    assert len(ShadowAnswer.objects.get().figures["lessons"]) == 2


def test_agents_are_given_none_of_it() -> None:
    project, _ = try_in_shadow()
    given = get_guidelines(project)

    compare()

    assert given == get_guidelines(project) == ["Check the fare rules."]
    assert set(Retrieval.objects.values_list("arm", flat=True)) == {"stable"}


def test_request_does_the_same_work_with_shadow_as_without() -> None:
    project, _ = try_in_shadow()
    ask(project)
    with CaptureQueriesContext(connection) as with_shadow:
        ask(project)
    change_deployment(project, by=BY, change=DeploymentChange(shadow_share=0))
    ask(project)
    with CaptureQueriesContext(connection) as without:
        ask(project)

    assert len(with_shadow) == len(without)
    assert not Job.objects.filter(kind=KIND).exists()


def test_both_arms_are_compared() -> None:
    project, _ = try_in_shadow(canary=500)
    for number in range(12):
        ask(project, session=f"user {number}")

    compare()

    arms = set(ShadowAnswer.objects.values_list("retrieval__arm", flat=True))
    assert arms == {"stable", "candidate"}
    assert report_on(project).differing == 12


def test_answers_over_the_maximum_are_dropped_and_counted() -> None:
    project, _ = try_in_shadow(per_minute=2)
    for _ in range(5):
        ask(project)

    compare()

    report = report_on(project)
    assert (report.seen, report.compared, report.dropped) == (5, 2, 3)


def test_share_chooses_some_answers() -> None:
    project, _ = try_in_shadow(share=500)
    for _ in range(40):
        ask(project)

    compare()

    report = report_on(project)
    assert (report.seen, report.dropped) == (40, 0)
    assert 5 < report.compared < 35


def test_answers_that_waited_too_long_are_dropped() -> None:
    project, _ = try_in_shadow()
    ask(project)

    compare(minutes_ago=30)

    assert (report_on(project).compared, report_on(project).dropped) == (0, 1)


def test_random_draws_are_skipped_and_counted() -> None:
    project, _ = try_in_shadow()
    ask(project, mode="random")

    compare()

    assert (report_on(project).compared, report_on(project).skipped) == (0, 1)


def test_minute_is_counted_once() -> None:
    project, _ = try_in_shadow()
    ask(project)
    compare()

    queue_shadow_jobs()
    run_shadow(owner="another")

    assert sorted(EvaluationRow.objects.values_list("kind", flat=True)) == ["answer", "minute"]


def test_options_of_the_request_are_asked_again() -> None:
    project, _ = try_in_shadow()
    ask(project, top_k=1)

    compare()

    assert len(ShadowAnswer.objects.get().figures["lessons"]) == 1


def test_quarantined_lesson_of_the_candidate_is_left_out() -> None:
    project, candidate = try_in_shadow()
    added = max(candidate.manifest["lessons"], key=lambda one: str(one["revision"]))
    quarantine_heuristic(Heuristic.objects.get(pk=added["heuristic"]), by=BY)
    ask(project)

    compare()

    assert report_on(project).differing == 0


def test_deleting_an_answer_deletes_its_comparison() -> None:
    project, _ = try_in_shadow()
    ask(project)
    compare()

    Retrieval.objects.all().delete()

    assert not ShadowAnswer.objects.exists()


def test_without_candidate_nothing_is_compared() -> None:
    project, _ = try_in_shadow()
    ask(project)
    promote(project, by=BY)

    assert queue_shadow_jobs() == []
    assert describe_shadow(project) is None


def test_report_takes_a_fixed_number_of_queries() -> None:
    project, _ = try_in_shadow()
    for family in ("airline", "hotel", "car"):
        ask(project, task_id=family)
    compare()

    with CaptureQueriesContext(connection) as queries:
        report = report_on(project)

    assert len(report.families) == 3
    assert len(queries) <= 7


def test_api_reads_report_and_answers() -> None:
    project, _ = try_in_shadow()
    client = make_client(make_api_key(project=project, scopes=[ApiKey.Scope.EVALUATE]).token)
    ask(project, task_id="airline")
    compare()

    report = client.get("/api/v1/shadow").json()
    assert report["percent"] == 100
    listed = client.get("/api/v1/shadow/answers?differs=true&family=airline&limit=5").json()
    none = client.get("/api/v1/shadow/answers?release=2&differs=false").json()

    assert report["sentence"] == "Release 2 would change 100% of the answers of release 1: 1 of 1 that were compared."
    assert listed["pagination"]["total"] == 1
    assert listed["results"][0]["added"] == [report["families"][0]["lessons"][0]["heuristic"]]
    assert none["results"] == []


def test_api_says_that_nothing_was_compared() -> None:
    client = make_client(make_api_key().token)

    report, listed = client.get("/api/v1/shadow"), client.get("/api/v1/shadow/answers")

    assert (report.status_code, listed.status_code) == (200, 200)
    assert report.json()["sentence"].startswith("Nothing was compared")
    assert listed.json()["results"] == []


def test_page_shows_the_member_of_a_project_what_would_change(client: Client) -> None:
    project, _ = try_in_shadow()
    ask(project, task_id="airline")
    compare()
    hidden, _ = try_in_shadow()
    member = make_member(project=project, permissions=["view_shadowanswer"])
    client.force_login(member)

    page = client.get("/admin/evaluation/shadowanswer/").content.decode()

    assert "would change 100% of the answers of release 1" in page
    assert "airline" in page
    assert hidden.slug not in page
