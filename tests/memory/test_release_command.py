"""`manage.py release`, and releases that a policy cuts."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memory.projects.models import Project
from memory.releases.deployments import DeploymentChange, change_deployment, get_deployment
from memory.releases.models import Deployment, Release
from memory.releases.policy import cut_after_approval, cut_every_night
from memory.retrieval.families import read_family
from tests.factories import make_project
from tests.releases import BY, get_guidelines, make_lesson, serve_releases

pytestmark = pytest.mark.django_db
FIRST, SECOND = "Check the fare class.", "Offer a later flight."


@pytest.fixture
def project() -> Project:
    project = make_project(slug="air")
    make_lesson(project, FIRST, task_id="air")
    return project


def run(*arguments: Any) -> str:
    said = StringIO()
    call_command("release", *arguments, project="air", stdout=said)
    return said.getvalue()


def test_release_goes_from_cut_to_roll_back(project: Project) -> None:
    assert "Release 1" in run("mode", "releases")
    make_lesson(project, SECOND)

    assert "Release 2" in run("cut", "--note", "later flights")
    assert "100% of the units" in run("canary", "2", "100")
    assert get_guidelines(project) == [FIRST, SECOND]
    assert "Release 2" in run("promote", "--reason", "it helps")
    assert "Release 1" in run("rollback")
    assert get_guidelines(project) == [FIRST]
    assert run("list").splitlines()[1].split()[-1] == "stable"


def test_diff_is_readable(project: Project) -> None:
    run("cut")
    make_lesson(project, SECOND)
    run("cut")

    said = run("diff", "1", "2")

    assert f"When A customer asks to cancel a basic economy flight: {SECOND}" in said
    assert said.splitlines()[-1].startswith("1 added, 0 removed, 0 reworded, 0 settings changed, 1 lessons unchanged")


def test_cutting_nothing_new_says_so_and_that_the_note_is_not_kept(project: Project) -> None:
    assert "Release 1" in run("cut", "--note", "first")

    said = run("cut", "--note", "second")

    assert said.startswith("Nothing was cut: Release 1 (")
    assert "Your note was not kept" in said
    assert Release.objects.get(project=project).note == "first"


def test_no_log_lines_among_the_output(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    run("mode", "releases")
    run("cut")

    assert caplog.messages == []


def test_hold_out_is_set_in_percent(project: Project) -> None:
    assert "2.5% of the units get no lessons" in run("holdout", "2.5")
    assert get_deployment(project).holdout_share == 25


def test_shadow_is_set_in_percent_and_said_with_the_candidate(project: Project) -> None:
    run("mode", "releases")
    assert "20% of the answers wait for a candidate to compare them with in shadow" in run("shadow", "20")
    make_lesson(project, SECOND)
    run("cut")
    run("canary", "2", "0")

    assert "12.5% of the answers are compared in shadow" in run("shadow", "12.5", "--per-minute", "30")
    deployment = get_deployment(project)
    assert (deployment.shadow_share, deployment.shadow_per_minute) == (125, 30)


@pytest.mark.parametrize("arguments", [["promote"], ["diff", "1", "2"], ["holdout", "101"], ["shadow", "-1"]])
def test_refusal_is_a_sentence(project: Project, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match=r"\.$"):
        run(*arguments)


def test_unknown_release_is_refused_and_says_where_to_look(project: Project) -> None:
    with pytest.raises(CommandError, match="List its releases"):
        run("canary", "9", "10")


def test_policy_cuts_after_an_approval(project: Project) -> None:
    change_deployment(project, by=BY, change=DeploymentChange(cut_policy=Deployment.CutPolicy.APPROVAL))

    release = cut_after_approval(project.pk)

    assert release is not None
    assert (release.how, release.created_by) == ("policy", "policy:releases")


def test_no_policy_cuts_nothing(project: Project) -> None:
    assert cut_after_approval(project.pk) is None
    assert cut_every_night() == 0


def test_nightly_policy_cuts_once_a_night(project: Project) -> None:
    change_deployment(project, by=BY, change=DeploymentChange(cut_policy=Deployment.CutPolicy.NIGHTLY))

    assert [cut_every_night() for _ in range(2)] == [1, 0]
    assert Release.objects.filter(project=project).count() == 1


def test_family_is_read_from_the_stable_release(project: Project) -> None:
    serve_releases(project)
    make_lesson(project, SECOND, task_id="air")
    run("cut")  # kept ready, but not stable

    family = read_family(project.pk, "air")

    assert (family.total, SECOND in family.context.text) == (1, False)
