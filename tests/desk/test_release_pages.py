"""The pages of releases and deployments: what they show, who may press which button, and what that does."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor, describe_actor
from memory.projects.models import Project, ProjectMembership
from memory.releases.deployments import cut_release, get_deployment, get_release, promote, roll_back, start_canary
from memory.releases.models import Deployment, DeploymentEvent, Release
from tests.desk.desk_pages import address as address_of
from tests.desk.desk_pages import decide, log_in, page
from tests.factories import make_heuristic, make_project
from tests.releases import BY, serve_releases

pytestmark = pytest.mark.django_db
SEES = ("view_release", "view_deployment", "view_heuristic")
DEPLOYS = (*SEES, "deploy_release", "review_heuristic")
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def deployer() -> Client:
    return log_in("ana", permissions=DEPLOYS)


@pytest.fixture
def served(project: Project) -> Project:
    """A project whose release 1 is stable; release 2 has one lesson more and is not deployed."""
    make_heuristic(project=project, status="approved", guideline="Check the fare class.")
    serve_releases(project)
    make_heuristic(project=project, status="approved", guideline="Offer a later flight.")
    cut_release(project, by=BY, note="Later flights")
    return project


def address(project: Project) -> str:
    return reverse("admin:memory_deployment_of", args=[project.pk])


def read(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def press(client: Client, project: Project, do: str, **values: Any) -> str:
    """Press a button of the deployment's page as it is now; return the page that follows."""
    sent = {"do": do, "version": get_deployment(project).version, "reason": "why not"} | values
    return client.post(address(project), sent, follow=True).content.decode()


def release_page(release: Release, **query: Any) -> str:
    return reverse("admin:memory_release_change", args=[release.pk], query=query or None)


def test_list_shows_lineage_and_state(served: Project, deployer: Client) -> None:
    start_canary(served, release=get_release(served, "2"), share=100, by=BY)
    promote(served, by=BY)

    shown = read(deployer, reverse("admin:memory_release_changelist"))

    assert [line in shown for line in (">former<", ">stable<", "Later flights", describe_actor(BY.label))] == [True] * 4
    assert f"2 ({get_release(served, '2').sha256[:8]})" in shown


def test_release_page_shows_its_lessons_and_what_changed(served: Project, deployer: Client) -> None:
    shown = read(deployer, release_page(get_release(served, "2")))

    assert "Changes from release 1, its parent" in shown
    assert "Added" in shown
    assert shown.count("Offer a later flight.") == 2  # in the diff and in the list
    assert shown.count("Check the fare class.") == 1


def test_release_is_compared_with_any_other(served: Project, deployer: Client) -> None:
    shown = read(deployer, release_page(get_release(served, "1"), compare="2"))

    assert "Changes from release 2" in shown
    assert "Removed" in shown


@pytest.mark.parametrize("wanted", ["99", "%00", "'", "x" * 64, "00000000"])
def test_comparing_with_nothing_says_so(served: Project, deployer: Client, wanted: str) -> None:
    shown = read(deployer, release_page(get_release(served, "1")) + f"?compare={wanted}")

    assert "There is no such release" in shown


def test_button_cuts_a_release(project: Project, deployer: Client) -> None:
    make_heuristic(project=project, status="approved")
    sent = {"project": project.pk, "note": HOSTILE}

    shown = deployer.post(reverse("admin:memory_release_cut"), sent, follow=True).content.decode()

    release = Release.objects.get(project=project)
    assert (release.note, release.created_by, release.how) == (HOSTILE, "user:ana", "hand")
    assert "Agents do not get it yet" in shown
    assert HOSTILE not in shown


def test_cutting_nothing_new_says_so_and_that_the_note_is_not_kept(served: Project, deployer: Client) -> None:
    sent = {"project": served.pk, "note": "again"}

    shown = deployer.post(reverse("admin:memory_release_cut"), sent, follow=True).content.decode()

    assert "Nothing was cut: Release 2" in shown
    assert "Your note was not kept" in shown


def test_canary_is_stepped_promoted_and_rolled_back_by_buttons(served: Project, deployer: Client) -> None:
    press(deployer, served, "canary", **{"canary-release": "2", "canary-percent": "1", "canary-version": 1})
    shares = [get_deployment(served).canary_share]
    for _ in range(2):
        press(deployer, served, "step")
        shares.append(get_deployment(served).canary_share)

    press(deployer, served, "promote")
    stable = [get_deployment(served).stable]
    press(deployer, served, "rollback")
    stable.append(get_deployment(served).stable)

    assert shares == [10, 100, 500]
    assert stable == [get_release(served, "2"), get_release(served, "1")]
    newest = DeploymentEvent.objects.filter(project=served).order_by("-version")[0]
    assert (newest.kind, newest.made_by, newest.reason) == ("rolled_back", "user:ana", "why not")


def test_promotion_asks_first_and_takes_a_reason(served: Project, deployer: Client) -> None:
    start_canary(served, release=get_release(served, "2"), share=100, by=BY)

    asked = read(deployer, f"{address(served)}?ask=promote")
    refused = press(deployer, served, "promote", reason=" ")

    assert "All agents get release 2, now given to 10% of the units." in asked
    assert "Promote release 2?" in refused
    assert "This field is required." in refused
    assert get_deployment(served).stable == get_release(served, "1")


def test_roll_back_asks_first(served: Project, deployer: Client) -> None:
    promote(served, by=BY, release=get_release(served, "2"))

    asked = read(deployer, f"{address(served)}?ask=rollback")

    assert "All agents get release 1 again, and none gets release 2." in asked
    assert get_deployment(served).stable == get_release(served, "2")


def test_asking_for_what_is_not_possible_says_so(served: Project, deployer: Client) -> None:
    shown = deployer.get(f"{address(served)}?ask=promote", follow=True).content.decode()

    assert "There is nothing to promote" in shown


def test_page_says_what_was_stable_after_a_roll_back(served: Project, deployer: Client) -> None:
    promote(served, by=BY, release=get_release(served, "2"))
    roll_back(served, by=BY)

    shown = read(deployer, address(served))

    assert "no release was stable before release 1" in shown
    assert "Release 2</a> was stable until it was rolled back" in shown
    assert "Keys:" not in shown


def test_button_of_an_old_page_does_nothing(served: Project, deployer: Client) -> None:
    """Two people roll back at once: the second must not go back by one more release."""
    promote(served, by=BY, release=get_release(served, "2"))
    seen = get_deployment(served).version
    press(deployer, served, "rollback", version=seen)

    shown = press(deployer, served, "rollback", version=seen)

    assert "the deployment was changed after you opened the page" in shown
    assert get_deployment(served).version == seen + 1


def test_settings_are_one_form(project: Project, deployer: Client) -> None:
    make_heuristic(project=project, status="approved")
    shares = {"holdout_percent": "2.5", "shadow_percent": "12.5", "shadow_per_minute": "30"}
    settings = {"mode": "releases", "unit": "task", "cut_policy": "nightly", "version": 0} | shares

    shown = press(deployer, project, "settings", **{f"settings-{name}": value for name, value in settings.items()})

    deployment = Deployment.objects.get(project=project)
    assert (deployment.mode, deployment.holdout_share) == ("releases", 25)
    assert (deployment.unit, deployment.cut_policy) == ("task", "nightly")
    assert (deployment.shadow_share, deployment.shadow_per_minute) == (125, 30)
    assert 'name="settings-shadow_percent" value="12.5"' in shown
    assert "2.5% of the units get no lessons" in shown


def test_wrong_share_is_said_beside_its_field(served: Project, deployer: Client) -> None:
    sent = {"canary-release": "2", "canary-percent": "101", "canary-version": 1}

    shown = press(deployer, served, "canary", **sent)

    assert "less than or equal to 100" in shown
    assert get_deployment(served).candidate is None


def test_page_says_which_keys_do_what(served: Project, deployer: Client) -> None:
    start_canary(served, release=get_release(served, "2"), share=10, by=BY)

    shown = read(deployer, address(served))

    assert [f'aria-keyshortcuts="{key}"' in shown for key in "npb"] == [True] * 3
    assert "Widen to 10%" in shown


def test_history_shows_every_change(served: Project, deployer: Client) -> None:
    start_canary(served, release=get_release(served, "2"), share=10, by=BY, reason=HOSTILE)
    roll_back(served, by=BY)

    shown = read(deployer, address(served))

    assert "Rolled back automatically" in shown
    assert "Canary started or widened" in shown
    assert HOSTILE not in shown


def test_project_without_a_deployment_has_its_page(project: Project, deployer: Client) -> None:
    assert address(project) in read(deployer, reverse("admin:memory_deployment_changelist"))
    assert "Every approval is live at once." in read(deployer, address(project))


@pytest.mark.parametrize("do", ["cut", "step", "promote", "rollback", "seen"])
def test_buttons_need_the_permission(served: Project, do: str) -> None:
    client = log_in("ben", permissions=SEES)
    before = Release.objects.count(), get_deployment(served).version

    response = client.post(address(served), {"do": do, "version": before[1]})

    assert response.status_code == 403
    assert (Release.objects.count(), get_deployment(served).version) == before
    assert "You can only read this page" in read(client, address(served))


def test_other_projects_are_not_there(served: Project) -> None:
    client = log_in("ben", permissions=DEPLOYS, project=make_project())
    release = get_release(served, "1")

    assert client.get(address(served)).status_code == 404
    assert client.get(release_page(release)).status_code == 302
    cut = client.post(reverse("admin:memory_release_cut"), {"project": served.pk}, follow=True).content.decode()
    assert "Nothing was cut" in cut
    assert str(release.sha256[:12]) not in read(client, reverse("admin:memory_release_changelist"))


def test_auditor_of_the_project_cannot_deploy(served: Project) -> None:
    client = log_in("ben", permissions=DEPLOYS, role="auditor", project=served)

    assert client.post(address(served), {"do": "rollback", "version": 1}).status_code == 403


def test_pages_take_a_fixed_number_of_queries(served: Project) -> None:
    root = get_user_model().objects.create_superuser("root")
    ProjectMembership.objects.create(user=root, role="operator")
    client = Client()
    client.force_login(root)
    paths = [reverse("admin:memory_release_changelist"), address(served), release_page(get_release(served, "2"))]

    def count() -> list[int]:
        counts = []
        for path in paths:
            with CaptureQueriesContext(connection) as queries:
                read(client, path)
            counts.append(len(queries))
        return counts

    count()  # warms Django's caches
    before = count()
    for number in range(3):
        make_heuristic(project=served, status="approved", guideline=f"More advice {number}.")
        promote(served, by=BY, release=cut_release(served, by=BY))

    assert count() == before


# ── The review desk ───────────────────────────────────────────────────────────────────────────────────────────────────


def roll_back_by_policy(project: Project) -> None:
    start_canary(project, release=get_release(project, "2"), share=100, by=BY)
    roll_back(project, by=Actor.policy("experiments"), reason=f"Worse than the control: success. {HOSTILE}")


def test_desk_says_that_an_approval_waits_for_the_next_release(served: Project, deployer: Client) -> None:
    waiting = make_heuristic(project=served)

    assert "with the next release that is deployed" in page(deployer, waiting)
    assert "Agents get this lesson with the next release that is deployed." in decide(deployer, waiting)


def test_desk_of_a_continuous_project_says_nothing_of_releases(project: Project, deployer: Client) -> None:
    waiting = make_heuristic(project=project)

    assert "release that is deployed" not in page(deployer, waiting)
    assert "Agents get this lesson from now on." in decide(deployer, waiting)


def test_lesson_page_says_in_which_releases_it_is(served: Project, deployer: Client) -> None:
    later = Heuristic.objects.get(current_revision__guideline="Offer a later flight.")
    first = Heuristic.objects.get(current_revision__guideline="Check the fare class.")

    assert "The stable release does not have it yet." in page(deployer, later)
    assert "(stable)" in page(deployer, first)


@pytest.mark.parametrize("where", ["queue", "lesson"])
def test_automatic_roll_back_is_told_until_it_is_seen(served: Project, deployer: Client, where: str) -> None:
    path = (
        reverse("admin:memory_heuristic_changelist") if where == "queue" else address_of(make_heuristic(project=served))
    )
    roll_back_by_policy(served)
    told = read(deployer, path)

    press(deployer, served, "seen")

    assert "was rolled back automatically" in told
    assert HOSTILE not in told
    assert "was rolled back automatically" not in read(deployer, path)
    newest = DeploymentEvent.objects.filter(project=served).order_by("-version")[0]
    assert (newest.kind, newest.made_by) == ("seen", "user:ana")


def test_roll_back_by_a_person_is_not_told(served: Project, deployer: Client) -> None:
    start_canary(served, release=get_release(served, "2"), share=100, by=BY)
    press(deployer, served, "rollback")

    assert "was rolled back automatically" not in read(deployer, reverse("admin:memory_heuristic_changelist"))


def test_roll_back_of_another_project_is_not_told(served: Project) -> None:
    roll_back_by_policy(served)
    client = log_in("ben", permissions=DEPLOYS, project=make_project())

    assert "was rolled back automatically" not in read(client, reverse("admin:memory_heuristic_changelist"))


def test_home_page_counts_roll_backs(served: Project, deployer: Client) -> None:
    roll_back_by_policy(served)

    assert "rolled back automatically" in read(deployer, reverse("admin:index"))
