"""The lineage of an agent: the changes that were tried or are stable, what each was worth, and the way back."""

from typing import Any

from desk.effects.trials import draw_worth
from memory.releases.deployments import get_deployment
from runtime.models.agents import Agent
from runtime.models.changes import Change

SHOWN = 20


def draw_lineage(agent: Agent) -> list[dict[str, Any]]:
    """Return the changes of an agent that were deployed, the newest first. A fixed number of queries.

    `can_return` says whether a roll-back would take a change back.
    """
    deployed = agent.changes.filter(release__isnull=False).select_related("release", "target", "base", "parent")
    changes = list(deployed.order_by("-number")[:SHOWN])
    worth = draw_worth(changes)
    deployment = get_deployment(agent.project)
    # Only what is deployed last can be taken back.
    last = deployment.candidate_id or deployment.stable_id
    return [
        {
            "change": change,
            "worth": worth.get(change.pk, ""),
            "can_return": change.rung in Change.DEPLOYED and change.release_id == last,
        }
        for change in changes
    ]
