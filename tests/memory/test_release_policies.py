"""Releases that a policy cuts, and what is read of the stable one."""

import pytest

from memory.projects.models import Project
from memory.releases.deployments import DeploymentChange, change_deployment, cut_release
from memory.releases.models import Deployment, Release
from memory.releases.policy import cut_after_approval, cut_every_night
from memory.retrieval.families import read_family
from tests.factories import make_project
from tests.releases import BY, make_lesson, serve_releases

pytestmark = pytest.mark.django_db
FIRST, SECOND = "Check the fare class.", "Offer a later flight."


@pytest.fixture
def project() -> Project:
    project = make_project(slug="air")
    make_lesson(project, FIRST, task_id="air")
    return project


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
    cut_release(project, by=BY)  # kept ready, but not stable

    family = read_family(project.pk, "air")

    assert (family.total, SECOND in family.context.text) == (1, False)
