"""Write what a stage found: lessons to the review queue, the rest as suggestions. Repeating it adds nothing."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from django.db.models import DateTimeField, F, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Cast
from django.utils import timezone

from memory.curation.evidence import cite, link_evidence
from memory.curation.proposals import propose_heuristic
from memory.heuristics.models import Heuristic
from memory.heuristics.text import Authorship
from memory.projects.actors import Actor
from memory.redaction import redact
from memory.review.decisions import lock_subject
from memory.runs.models import Trajectory
from reflection.consolidation.drafts import Advice, Draft, NewLesson, Support
from reflection.consolidation.models import ConsolidationRun, Suggestion, SuggestionEvidence
from reflection.llm.models import ModelCall
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.matching import CheckedLesson, find_match
from reflection.reflectors.models import Proposal
from reflection.reflectors.nearest import embed_lesson
from reflection.reflectors.proposals import lock_proposals

MAX_SHOWN_RUNS = 10
MAX_QUOTE_CHARACTERS = 200
POLICY = Actor.policy("consolidation")

_LIVE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)


def write_drafts(run: ConsolidationRun, drafts: Iterable[Draft]) -> Counter[str]:
    """Write drafts in the caller's transaction; return how many were proposed, supported and suggested."""
    drafts = list(drafts)
    counts: Counter[str] = Counter()
    if not drafts:
        return counts
    # Reflections propose lessons too: under this lock the same lesson is proposed once.
    lock_proposals(run.project_id)
    for draft in drafts:
        counts[_write_lesson(run, draft) if isinstance(draft, NewLesson) else _write_advice(run, draft)] += 1
    return counts


def mark_outdated(run: ConsolidationRun) -> int:
    """Close the suggestions about words that have changed or lessons that were decided on; return how many."""
    open_ones = Suggestion.objects.filter(project=run.project_id, status=Suggestion.Status.OPEN)
    # The hash of the words tells whether they are still those that the suggestion is about.
    stale = open_ones.exclude(kind=Suggestion.Kind.NEW).filter(
        ~Q(heuristic__status__in=_LIVE)
        | ~Q(content_sha256=F("heuristic__current_revision__content_sha256"))
        | (
            Q(other__isnull=False)
            & (~Q(other__status__in=_LIVE) | ~Q(other_sha256=F("other__current_revision__content_sha256")))
        )
    )
    decided = open_ones.filter(kind=Suggestion.Kind.NEW).exclude(heuristic__status=Heuristic.Status.PROPOSED)
    ids = [*stale.values_list("pk", flat=True), *decided.values_list("pk", flat=True)]
    return Suggestion.objects.filter(pk__in=ids).update(
        status=Suggestion.Status.OUTDATED, decided_by=POLICY.label, decided_at=timezone.now()
    )


def _write_lesson(run: ConsolidationRun, draft: NewLesson) -> str:
    heuristic, doubts = _find_said(run, draft)
    if heuristic is not None:
        return "supported" if _add_runs(heuristic, draft.support) else "known"
    trajectories = Trajectory.objects.filter(pk__in=[support.trajectory_id for support in draft.support])
    clients = set(trajectories.values_list("client", flat=True))
    if not clients:
        # Its runs have been erased.
        return "known"
    heuristic = propose_heuristic(
        run.project,
        text=draft.text,
        by=Actor(label=f"consolidation:{draft.author.method}"),
        origin=Authorship(
            reflector=draft.author.method,
            reflector_version=draft.author.version,
            model=draft.author.model,
            prompt_version=draft.author.prompt_version,
            confidence=draft.confidence,
            # The limit of waiting lessons is per client; a lesson from several clients counts for none of them.
            client=clients.pop() if len(clients) == 1 else "",
        ),
        runs=[support.trajectory_id for support in draft.support],
    )
    _add_runs(heuristic, draft.support)
    revision = heuristic.current_revision
    # Every heuristic is made with one.
    assert revision is not None
    suggestion = Suggestion.objects.create(
        project_id=run.project_id,
        run=run,
        kind=Suggestion.Kind.NEW,
        heuristic=heuristic,
        content_sha256=revision.content_sha256,
        reason=draft.reason,
        method=draft.author.method,
        model=draft.author.model,
        prompt_version=draft.author.prompt_version,
        findings=[*draft.findings, *doubts],
        fingerprint=_fingerprint(draft),
    )
    _show_runs(suggestion, draft.support)
    return "proposed"


def _find_said(run: ConsolidationRun, draft: NewLesson) -> tuple[Heuristic | None, tuple[dict[str, Any], ...]]:
    """Return the lesson, in any status, that says the same or that these words led to before, or else a doubt."""
    before = Suggestion.objects.filter(project=run.project_id, fingerprint=_fingerprint(draft)).first()
    if before is not None:
        return before.heuristic, ()
    lesson = ProposedLesson(text=draft.text, citations=(), confidence=draft.confidence)
    match = find_match(run.project, CheckedLesson(lesson=lesson, vectors=embed_lesson(draft.text)))
    # What may say something else waits for a reviewer, with the doubt.
    if match.heuristic is None or match.doubt:
        return None, match.findings
    if match.effect == Proposal.Effect.SUPPORT:
        return match.heuristic, ()
    near = Heuristic.objects.with_text().get(pk=match.heuristic.pk).current_revision
    # A near lesson with the same polarity and scope is not proposed a second time in other words.
    covers = near is not None and near.polarity == draft.text.polarity and near.scope == draft.text.scope
    is_said = near is not None and covers and near.task_id == draft.text.task_id
    return (match.heuristic if is_said else None), ()


def _add_runs(heuristic: Heuristic, support: Iterable[Support]) -> bool:
    """Link runs to a lesson; return whether any was new to it."""
    heuristic = lock_subject(heuristic)
    known_ids = set(heuristic.evidence.values_list("trajectory_id", flat=True))
    new = {source.trajectory_id: source.citation for source in support if source.trajectory_id not in known_ids}
    # Runs may have been erased since they were read.
    there = Trajectory.objects.filter(project=heuristic.project_id).in_bulk(new)
    if there:
        runs = [(id, replace(citation, quote=citation.quote[:MAX_QUOTE_CHARACTERS])) for id, citation in new.items()]
        link_evidence(heuristic, [cite(heuristic, there[id], citation) for id, citation in runs if id in there])
    return bool(there)


def _write_advice(run: ConsolidationRun, draft: Advice) -> str:
    # In any status: what a person dismissed is not suggested again.
    if Suggestion.objects.filter(project=run.project_id, fingerprint=draft.fingerprint).exists():
        return "known"
    suggestion = Suggestion.objects.create(
        project_id=run.project_id,
        run=run,
        kind=draft.kind,
        heuristic_id=draft.heuristic_id,
        content_sha256=draft.content_sha256,
        other_id=draft.other_id,
        other_sha256=draft.other_sha256,
        text=redact(draft.text.as_words()).value if draft.text else {},
        reason=draft.reason,
        similarity=draft.similarity,
        method=draft.author.method,
        model=draft.author.model,
        prompt_version=draft.author.prompt_version,
        findings=list(draft.findings),
        fingerprint=draft.fingerprint,
        tokens_saved=draft.tokens_saved,
    )
    _show_runs(suggestion, draft.support)
    return "suggested"


def _show_runs(suggestion: Suggestion, support: Iterable[Support]) -> None:
    quotes = {source.trajectory_id: source.citation.quote for source in support}
    there = Trajectory.objects.filter(project=suggestion.project_id, pk__in=quotes).order_by("-created_at", "-id")
    SuggestionEvidence.objects.bulk_create(
        SuggestionEvidence(
            project_id=suggestion.project_id,
            suggestion=suggestion,
            trajectory_id=trajectory_id,
            # Quotes are the words of runs, so they are redacted before they are kept.
            quote=redact(quotes[trajectory_id][:MAX_QUOTE_CHARACTERS]).value,
        )
        for trajectory_id in there.values_list("pk", flat=True)[:MAX_SHOWN_RUNS]
    )


def _fingerprint(draft: NewLesson) -> str:
    # Without the reason, which a model words differently each time.
    parts = [draft.text.scope, draft.text.task_id, draft.text.polarity, draft.text.trigger, draft.text.guideline]
    return hashlib.sha256(json.dumps(["new", *parts]).encode()).hexdigest()


def forget_run(trajectory: Trajectory) -> None:
    """Delete the suggestions that rest on a run, and the words of the model in consolidations that read it.

    The answers of its reflections go with the reflections (reliability C10). A consolidation that is running asks
    again.
    """
    Suggestion.objects.filter(evidence__trajectory=trajectory).delete()
    runs = ConsolidationRun.objects.filter(project_id=trajectory.project_id).annotate(
        from_here=Cast(KT("payload__since"), DateTimeField()), to_here=Cast(KT("payload__until"), DateTimeField())
    )
    read_it = runs.filter(
        Q(from_here__isnull=True) | Q(from_here__lte=trajectory.created_at), to_here__gte=trajectory.created_at
    )
    # Answers may quote the run, and which of them do cannot be told.
    ModelCall.objects.filter(job__in=read_it.values("pk")).erase_words()
