"""What the reflector's checks and its cost add to the review desk."""

from collections.abc import Iterable
from uuid import UUID

from memory.admin.panels import Panel
from memory.models import Heuristic
from reflection.models import Proposal


def draw_checks(heuristic: Heuristic) -> Panel:
    """Return what the checks found in a heuristic as it was proposed, and what proposing it cost. One query."""
    proposals = list(
        Proposal.objects.filter(heuristic=heuristic).select_related("reflection").order_by("created_at", "id")[:20]
    )
    findings = {finding["code"]: finding["message"] for proposal in proposals for finding in proposal.findings}
    first = proposals[0].reflection if proposals else None
    return Panel(
        template="admin/reflection/checks.html",
        context={"findings": findings, "reflection": first, "proposals": proposals},
    )


def find_flagged(heuristic_ids: Iterable[UUID]) -> set[UUID]:
    """Return which of these heuristics have a finding."""
    flagged = Proposal.objects.filter(heuristic__in=list(heuristic_ids)).exclude(findings=[])
    return set(flagged.values_list("heuristic_id", flat=True))
