"""What the checks of a reflection found in a lesson."""

from typing import Any

from memory.heuristics.models import Heuristic
from reflection.reflectors.models import Proposal


def describe_checks(heuristic: Heuristic) -> dict[str, Any]:
    """Return what the checks found when a heuristic was proposed, and what proposing it cost. One query."""
    proposals = list(
        Proposal.objects.filter(heuristic=heuristic).select_related("reflection").order_by("created_at", "id")[:20]
    )
    findings = {finding["code"]: finding["message"] for proposal in proposals for finding in proposal.findings}
    first = proposals[0].reflection if proposals else None
    return {"findings": findings, "reflection": first}
