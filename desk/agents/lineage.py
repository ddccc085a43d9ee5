"""The lineage of an agent: the changes that were tried or are stable, what each was worth, and the way back."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from desk.effects.trials import draw_worth
from memory.projects.access import has_role
from memory.projects.models import ProjectMembership
from memory.releases.deployments import get_deployment
from runtime.models.agents import Agent
from runtime.models.changes import Change

SHOWN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Descent:
    """One line of the lineage. `can_return` says whether a roll-back would take this change back."""

    change: Change
    worth: str
    can_return: bool


def draw_lineage(agent: Agent) -> list[Descent]:
    """Return the changes of an agent that were deployed, the newest first. A fixed number of queries."""
    deployed = agent.changes.filter(release__isnull=False).select_related("release", "target", "base", "parent")
    changes = list(deployed.order_by("-number")[:SHOWN])
    worth = draw_worth(changes)
    deployment = get_deployment(agent.project)
    last = deployment.candidate_id or deployment.stable_id
    return [
        Descent(
            change=each,
            worth=worth.get(each.pk, ""),
            can_return=each.rung in Change.DEPLOYED and each.release_id == last,
        )
        for each in changes
    ]


def may_decide(user: Any, project_id: UUID) -> bool:
    """Tell whether a person may decide about changes of agents in a project."""
    return user.has_perm("agents.decide_change") and has_role(user, project_id, ProjectMembership.Role.REVIEWER)
