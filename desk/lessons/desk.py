"""What is shown of one lesson: its words, evidence, similar lessons, effect and history."""

from datetime import timedelta
from typing import Any

from django.db.models import Exists, F, Max, OuterRef, Q
from django.utils import timezone
from pgvector.django import MaxInnerProduct

from desk.effects.uplift import describe_lesson_effect
from desk.lessons.queue import explain_priority
from desk.lessons.release_facts import describe_releases
from desk.lessons.serving_facts import describe_serving
from desk.reflections.suggestions import find_suggestions
from desk.shell.word_diff import diff_heuristics
from memory.curation.priority import find_fitting_tasks
from memory.curation.proposal_groups import count_wordings, find_group_evidence, find_others
from memory.effects.outcomes import count_by_heuristic, describe_effect
from memory.heuristics.extensions import find_tallies
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.heuristics.sameness import compare_heuristics
from memory.meaning.comparison import MeaningVerdict, compare_texts
from memory.projects.access import may_review
from memory.retrieval.context import count_tokens, write_line
from memory.retrieval.models import HeuristicEmbedding, Retrieval
from memory.review.models import Review
from memory.rows import find_row
from memory.runs.models import Trajectory
from reflection.reflectors.models import Proposal

_RUNS = 5  # runs shown; the rest are counted
_NEIGHBOURS = 1  # steps kept, folded, on either side of a cited one
_REVIEWS = 100
_SIMILAR = 3
# Below this, two lessons merely share a subject.
_MIN_SIMILARITY = 0.5
_OPPOSED = {HeuristicRevision.Polarity.WORKS, HeuristicRevision.Polarity.AVOID}
_SOON = timedelta(minutes=2)  # within which workers rank a new proposal
_IN_USE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)
_TITLES: dict[str, str] = {
    Review.Decision.APPROVE: "Approved",
    Review.Decision.FIRST_APPROVAL: "First of two approvals",
    Review.Decision.EDIT: "Edited",
    Review.Decision.REJECT: "Rejected",
    Review.Decision.RETIRE: "Retired",
    Review.Decision.QUARANTINE: "Quarantined",
    Review.Decision.MERGE: "Merged",
    Review.Decision.UNDO: "Decision undone",
    Review.Decision.REFLECT_AGAIN: "Another reflection requested",
    Review.Decision.CONFIRM_EVIDENCE: "Evidence confirmed",
    Review.Decision.SPLIT: "Taken out of its group",
    Review.Decision.KEEP: "Kept in use",
}


def find_standing(heuristic: Heuristic, *, user: Any) -> dict[str, Any]:
    """Tell what a person may do about a lesson, and who has claimed it. Three queries at most; none claims it."""
    revision = heuristic.current_revision
    assert revision is not None
    # Another wording may be served meanwhile.
    served = None if revision.served else find_row(heuristic.revisions.filter(served=True))
    now = timezone.now()
    archived_at = heuristic.project.archived_at
    archived = archived_at is not None and archived_at <= now
    waiting = heuristic.status == Heuristic.Status.PROPOSED and not archived
    # Asked again: the lesson may have been read before someone took it over.
    claims = Heuristic.objects.claimed().filter(pk=heuristic.pk).select_related("claimed_by")
    claimed = find_row(claims) if waiting else None
    return {
        "heuristic": heuristic,
        "revision": revision,
        "served": served,
        "is_served": revision.served or served is not None,
        "may_review": may_review(user, heuristic.project_id),
        "archived": archived,
        "waiting": waiting,
        "held_by": str(claimed.claimed_by) if claimed else "",
        "held_until": claimed.claimed_until if claimed else None,
        "claimed_by_other": claimed is not None and claimed.claimed_by_id != user.pk,
    }


def words_context(standing: dict[str, Any], *, user: Any) -> dict[str, Any]:
    """Collect what stands beside the words that are decided on, in a fixed number of queries."""
    heuristic, revision = standing["heuristic"], standing["revision"]
    first_approvals: list[Review] = []
    if heuristic.project.four_eyes:
        first_approvals = list(revision.reviews.filter(decision=Review.Decision.FIRST_APPROVAL))
    return {
        "serving": describe_serving(heuristic, revision),
        **describe_releases(heuristic),
        "first_approvals": first_approvals,
        "approved_by_me": any(review.reviewer_user_id == user.pk for review in first_approvals),
        "why_here": explain_priority(heuristic),
        "wording_count": count_wordings(heuristic) if standing["waiting"] else 1,
        "tokens": count_tokens(_write_for_agents(revision) + "\n"),
    }


def evidence_context(heuristic: Heuristic) -> dict[str, Any]:
    """Collect the runs that a lesson comes from and what the checks found. The best cited step is in `best`."""
    runs = _cited_runs(heuristic)
    best = None
    for run in runs:
        cited = [step for step in run["steps"] if step["cited"]]
        # Of the newest run that has one, a step with a quote or an error comes first.
        if cited:
            best = run, max(cited, key=lambda shown: (bool(shown["quotes"]), bool(shown["step"].get("error"))))
            break
    return {
        "runs": runs,
        "best": best,
        "runs_not_shown": max(0, heuristic.support - len(runs)),
        "tally": find_tallies([heuristic.pk]).get(heuristic.pk),
        "checks": _describe_checks(heuristic),
    }


def similar_context(heuristic: Heuristic, revision: HeuristicRevision) -> dict[str, Any]:
    """Collect the lessons that say nearly the same, and what a consolidation suggests about them."""
    wordings = []
    if heuristic.status == Heuristic.Status.PROPOSED:
        for other in find_others(heuristic):
            if words := other.current_revision:
                diff = diff_heuristics(revision.as_text(), words.as_text())
                wordings.append({"heuristic": other, "revision": words, "diff": diff})
    return {
        "wordings": wordings,
        "similar": _find_similar(revision, heuristic),
        "suggestions": find_suggestions(heuristic),
    }


def effect_context(heuristic: Heuristic, revision: HeuristicRevision) -> dict[str, Any]:
    """Collect what a lesson does or would do: the tasks it fits, and how the runs that were given it ended."""
    outcome = count_by_heuristic([heuristic.project_id], heuristic_ids=[heuristic.pk]).get(heuristic.pk)
    # A worker can be expected to compare a new proposal with the recorded tasks within seconds.
    is_new = heuristic.prioritised_at is None and timezone.now() - heuristic.created_at < _SOON
    return {
        "fitting": find_fitting_tasks(heuristic),
        "is_being_compared": heuristic.status == Heuristic.Status.PROPOSED and is_new,
        "effect": describe_effect(heuristic, outcome),
        "lesson_effect": describe_lesson_effect(heuristic),
        "agent_line": _write_for_agents(revision),
    }


def collect_events(heuristic: Heuristic) -> list[dict[str, Any]]:
    """Return what happened to a heuristic, newest first. Three queries."""
    revisions = list(HeuristicRevision.objects.filter(heuristic=heuristic).order_by("number"))
    events: list[dict[str, Any]] = []
    # Each wording beside the one before it; the first has none.
    for before, revision in zip([None, *revisions], revisions, strict=False):
        events.append(
            {
                "at": revision.created_at,
                "kind": "written",
                "title": "Proposed" if before is None else f"Revision {revision.number} written",
                "by": revision.created_by,
                "revision": revision,
                "diff": diff_heuristics(before.as_text(), revision.as_text()) if before else [],
            }
        )
    events += [
        {
            "at": review.created_at,
            "kind": review.decision,
            "title": _TITLES[review.decision],
            "by": review.reviewer,
            "reason": review.reason,
            "seconds": review.seconds_on_screen,
            "into": heuristic.superseded_by if review.decision == Review.Decision.MERGE else None,
        }
        for review in heuristic.reviews[:_REVIEWS]
    ]
    outcome = count_by_heuristic([heuristic.project_id], heuristic_ids=[heuristic.pk]).get(heuristic.pk)
    if outcome is not None and outcome.first_at is not None:
        events.append({"at": outcome.first_at, "kind": "served", "title": "First given to an agent"})
    return sorted(events, key=lambda event: event["at"], reverse=True)


def compare_with_read(heuristic: Heuristic, content_sha256: str) -> dict[str, Any] | None:
    """Return the wording a person read, by its hash, against the present one; None where there was no such wording."""
    read = heuristic.revisions.filter(content_sha256=content_sha256).order_by("-number").first()
    present = heuristic.current_revision
    if read is None or present is None:
        return None
    return {"read": read, "diff": diff_heuristics(read.as_text(), present.as_text())}


def _write_for_agents(revision: HeuristicRevision) -> str:
    """Return the line of a lesson as it stands in an agent's prompt."""
    words = {name: getattr(revision, name) for name in ("trigger", "guideline", "avoid", "not_when")}
    return write_line({"id": revision.heuristic_id, **words}, number=1)


def _cited_runs(heuristic: Heuristic) -> list[dict[str, Any]]:
    """Return the newest runs of a lesson and its group, each once, cut to the cited steps and their neighbours."""
    evidence = find_group_evidence(heuristic)
    # The newest runs, each once, however often it is cited.
    newest = evidence.values("trajectory").annotate(newest=Max("created_at")).order_by("-newest")
    evidence = evidence.filter(trajectory__in=newest.values("trajectory")[:_RUNS]).annotate(
        had_lessons=Exists(Retrieval.objects.filter(pk=OuterRef("trajectory__retrieval")).exclude(injected_ids=[]))
    )
    by_run: dict[Trajectory, list[Any]] = {}
    for item in evidence.select_related("trajectory").order_by("-created_at", "first_step"):
        by_run.setdefault(item.trajectory, []).append(item)
    runs = []
    for trajectory, citations in by_run.items():
        quotes = quotes_by_step(citations)
        near = {index + offset for index in quotes for offset in range(-_NEIGHBOURS, _NEIGHBOURS + 1)}
        steps = [step for step in trajectory.steps if step["index"] in near]
        runs.append(
            {
                "trajectory": trajectory,
                "steps": [
                    {"step": step, "cited": step["index"] in quotes, "quotes": quotes.get(step["index"], [])}
                    for step in steps
                ],
                # Those of the run as a whole.
                "quotes": [item.quote for item in citations if item.first_step is None and item.quote],
                "had_lessons": any(item.had_lessons for item in citations),
            }
        )
    return runs


def quotes_by_step(citations: list[Evidence]) -> dict[int, list[str]]:
    """Return the quotes of each cited step; a quote of several steps stands at the first of them."""
    quotes: dict[int, list[str]] = {}
    for item in citations:
        if item.first_step is None or item.last_step is None:
            continue
        for index in range(item.first_step, item.last_step + 1):
            quotes.setdefault(index, [])
        if item.quote:
            quotes[item.first_step].append(item.quote)
    return quotes


def _find_similar(revision: HeuristicRevision, heuristic: Heuristic) -> list[dict[str, Any]]:
    """Return the lessons in use that are most similar in meaning; none without an embedder. Two queries."""
    kind = HeuristicEmbedding.Kind.LESSON
    vectors = HeuristicEmbedding.objects.filter(revision=revision, kind=kind, vector__isnull=False)
    own: Any = vectors.order_by("-embedding_model__active").first()
    if own is None:
        return []
    # Unit vectors: the inner product is the cosine. The operator gives its negative.
    nearest: Any = (
        HeuristicEmbedding.objects.filter(
            Q(heuristic__current_revision=F("revision")),
            # The others are shown below the one that stands for their group.
            heuristic__leader__isnull=True,
            project=own.project_id,
            embedding_model=own.embedding_model_id,
            kind=kind,
            heuristic__status__in=_IN_USE,
        )
        .exclude(heuristic__in=[own.heuristic_id, heuristic.leader_id or own.heuristic_id])
        .annotate(distance=MaxInnerProduct("vector", own.vector))
        .filter(distance__lte=-_MIN_SIMILARITY)
        .select_related("revision__heuristic")
        .order_by("distance")[:_SIMILAR]
    )
    return [
        {
            "revision": row.revision,
            "percent": round(-100 * row.distance),
            "diff": diff_heuristics(row.revision.as_text(), revision.as_text()),
            "contradiction": _find_contradiction(row.revision, revision),
        }
        for row in nearest
    ]


def _find_contradiction(lesson: HeuristicRevision, other: HeuristicRevision) -> str:
    """Say why two similar lessons may contradict each other; "" if nothing suggests it."""
    comparison = compare_heuristics(lesson.as_text(), other.as_text())
    if comparison.is_opposite:
        return f"Only one of them can hold: {comparison.reason}."
    for forbidden, advised in ((lesson.avoid, other.guideline), (other.avoid, lesson.guideline)):
        if forbidden and compare_texts(forbidden, advised).verdict is MeaningVerdict.SAME:
            return "One says to do what the other says to avoid."
    if {lesson.polarity, other.polarity} == _OPPOSED:
        return "One says what works, the other what to avoid."
    return ""


def _describe_checks(heuristic: Heuristic) -> dict[str, Any]:
    """Return what the checks found, the words they mean, lessons it may repeat, and what proposing it cost."""
    rows = Proposal.objects.filter(heuristic=heuristic).select_related("reflection", "near__current_revision")
    proposals = list(rows.order_by("created_at", "id")[:20])
    findings = {finding["message"]: finding for proposal in proposals for finding in proposal.findings}
    # Another wording of the same row is shown with the others.
    beside = [proposal.near for proposal in proposals if proposal.effect == Proposal.Effect.MERGE]
    near = {other.pk: other for other in beside if other and other.current_revision and other.status in _IN_USE}
    return {
        "findings": list(findings.values()),
        "words": [word for finding in findings.values() for word in finding.get("words", ())],
        "near": list(near.values()),
        "reflection": proposals[0].reflection if proposals else None,
    }
