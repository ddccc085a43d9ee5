"""What the review desk says of releases: where a lesson is given, when an approval counts, what was rolled back."""

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from desk.shell.chosen_project import narrow_to_chosen
from desk.shell.pages import Figure
from memory.heuristics.models import Heuristic
from memory.releases.deployments import get_deployment, serves_releases
from memory.releases.models import DeploymentEvent, ReleaseMember

SHOWN_ROLL_BACKS = 5


def describe_releases(heuristic: Heuristic) -> dict[str, Any]:
    """Return whether a project serves releases and, if so, which of those kept ready have it. At most 3 queries."""
    if not serves_releases(heuristic.project_id):
        return {"serves_releases": False}
    deployment = get_deployment(heuristic.project)
    places = {
        deployment.previous_id: "stable before",
        deployment.candidate_id: f"candidate, {deployment.canary_share / 10:g}%",
        deployment.stable_id: "stable",
    }
    members = ReleaseMember.objects.filter(revision__heuristic=heuristic).select_related("release", "revision")
    memberships = list(members.defer("release__manifest").order_by("-release__number"))
    return {
        "serves_releases": True,
        "in_releases": [(membership, places.get(membership.release_id, "")) for membership in memberships],
        "in_stable": any(membership.release_id == deployment.stable_id for membership in memberships),
    }


def find_roll_backs(request: HttpRequest) -> list[DeploymentEvent]:
    """Return the automatic roll-backs in the chosen project that no person has acknowledged. One query."""
    if not request.user.has_perm("memory.view_deployment"):
        return []
    unseen = DeploymentEvent.objects.unseen_roll_backs().select_related("project").order_by("-made_at")
    return list(narrow_to_chosen(unseen, request)[:SHOWN_ROLL_BACKS])


def count_roll_backs(request: HttpRequest) -> Iterable[Figure]:
    """Return how many automatic roll-backs no person has acknowledged, if there are any."""
    if unseen := len(find_roll_backs(request)):
        link = reverse("admin:memory_deployment_changelist")
        yield Figure(label="rolled back automatically", value=str(unseen), link=link, alarming=True)
