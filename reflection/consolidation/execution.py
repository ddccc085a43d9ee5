"""Run a consolidation: claim it, and stage by stage read, find, and write what was found with the stage's name."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.db import DatabaseError, InterfaceError, transaction
from django.db.models import F

from memory.effects.models import UsageVerdict
from memory.effects.usefulness import refresh_usefulness
from memory.redaction import redact
from reflection.consolidation import distillation as distilling
from reflection.consolidation.comparison import compare_lessons
from reflection.consolidation.drafts import Advice, Draft
from reflection.consolidation.model import ModelConsolidator
from reflection.consolidation.models import ConsolidationRun, Suggestion
from reflection.consolidation.queue import claim, count_new_episodes, extend_lease, leave, lock_claimed
from reflection.consolidation.results import mark_outdated, write_drafts
from reflection.consolidation.sources import Lesson, read_lessons, read_notes
from reflection.errors import LostClaim, ReflectionError
from reflection.jobs.heartbeat import Heartbeat
from reflection.lifecycle.adherence import RulesJudge, find_given, find_unjudged, record_verdicts
from reflection.lifecycle.maintenance import find_failed_uses, suggest_repair
from reflection.lifecycle.retirement import suggest_retirements, used_lessons
from reflection.llm.calls import RememberedAsk
from reflection.reflectors.llm import Ask
from reflection.reflectors.registry import ask_provider

log = structlog.get_logger(__name__)

_Status = ConsolidationRun.Status


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One attempt at a consolidation and what its stages work with."""

    run: ConsolidationRun
    heartbeat: Heartbeat
    model: ModelConsolidator | None = None

    def by_model_or_rules(
        self, ask: Callable[[ModelConsolidator], Sequence[Draft]], rules: Callable[[], Sequence[Draft]]
    ) -> Sequence[Draft]:
        """Return what the model proposes; where there is none or it fails, what the rules do, and say so on the row."""
        if self.model is None or self.run.fallback:
            return rules()
        try:
            drafts = ask(self.model)
        except LostClaim:
            raise
        except ReflectionError as error:
            self.run.fallback = redact(str(error)).value[:500]
            log.warning("consolidation_by_rules", code=error.code)
            return rules()
        self.run.method, self.run.prompt_version = "llm", self.model.prompt_version
        return drafts


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a stage found: drafts to write, and figures for the run's row."""

    drafts: Sequence[Draft] = ()
    figures: dict[str, int] | None = None


def run_consolidation(
    run_id: UUID | None = None, *, owner: str, ask_model: Ask = ask_provider
) -> ConsolidationRun | None:
    """Claim one consolidation, or the one that has waited longest, and see it through; None where there is none.

    What goes wrong is written on the row. Raises only what stops the process.
    """
    run = claim(run_id, owner=owner)
    if run is None:
        return None
    with structlog.contextvars.bound_contextvars(consolidation_id=str(run.pk)):
        log.info("consolidation_started", attempts=run.attempts, cause=run.cause, owner=owner)
        try:
            with Heartbeat(run, extend=extend_lease) as heartbeat:
                _see_through(run, heartbeat, ask_model=ask_model)
        except (LostClaim, DatabaseError, InterfaceError) as error:
            log.warning("consolidation_lost", error=type(error).__name__)
        row = ConsolidationRun.objects.select_related("project").filter(pk=run.pk).first()
        log.info("consolidation_finished", status=row.status if row else "gone")
    return row


def _see_through(run: ConsolidationRun, heartbeat: Heartbeat, *, ask_model: Ask) -> None:
    try:
        at = Pass(run=run, heartbeat=heartbeat, model=_find_model(run, heartbeat, ask_model=ask_model))
        for name, stage in STAGES:
            heartbeat.ensure_held()
            if name not in ConsolidationRun.objects.values_list("stages_done", flat=True).get(pk=run.pk):
                _do(run, name, stage(at))
        leave(run, status=_Status.DONE)
    except LostClaim:
        raise
    except ConsolidationRun.DoesNotExist:
        raise LostClaim("The consolidation is gone.") from None
    except ReflectionError as error:
        message = redact(str(error)).value[:500]
        leave(run, status=_Status.RETRY if error.transient else _Status.DEAD, code=error.code, message=message)
    except SoftTimeLimitExceeded:
        # Stages and answers are kept, so the next attempt goes on where this one was stopped.
        message = f"It took longer than {settings.CELERY_TASK_SOFT_TIME_LIMIT} seconds; it goes on."
        leave(run, status=_Status.RETRY, code="time_limit", message=message)
    except Exception as error:
        _leave_crashed(run, error)
    except BaseException:
        with suppress(LostClaim, DatabaseError, InterfaceError):
            leave(
                run,
                status=_Status.RETRY,
                code="interrupted",
                message="It was stopped; it goes on.",
                count_attempt=False,
            )
        raise


def _find_model(run: ConsolidationRun, heartbeat: Heartbeat, *, ask_model: Ask) -> ModelConsolidator | None:
    """Return who asks the model, where reflections do too."""
    if settings.ERL_REFLECTOR == "rules" or (settings.ERL_REFLECTOR == "auto" and not settings.ERL_LLM_PROVIDER):
        return None
    ask = RememberedAsk(run, heartbeat, ask_model=ask_model, provider=settings.ERL_LLM_PROVIDER)
    return ModelConsolidator(ask=ask, model=settings.ERL_LLM_MODEL)


@transaction.atomic
def _do(run: ConsolidationRun, name: str, found: Found) -> None:
    """Write what a stage found and that it is done, together or not at all.

    Raises:
        LostClaim: somebody else holds the run.
    """
    row = lock_claimed(run)
    if name in row.stages_done:
        return
    counts = write_drafts(row, found.drafts)
    ConsolidationRun.objects.filter(pk=row.pk).update(
        stages_done=[*row.stages_done, name],
        heuristics_proposed=F("heuristics_proposed") + counts["proposed"],
        heuristics_supported=F("heuristics_supported") + counts["supported"],
        suggestions_made=F("suggestions_made") + counts["suggested"],
        method=run.method or "rules",
        version=distilling.VERSION,
        model=run.model,
        prompt_version=run.prompt_version,
        fallback=run.fallback,
        **(found.figures or {}),
    )
    log.info("consolidation_stage_done", stage=name, **counts)


def _begin(at: Pass) -> Found:
    """Note what there is before, and close suggestions about what was decided meanwhile."""
    mark_outdated(at.run)
    lessons = read_lessons(at.run.project)
    return Found(
        figures={
            "episodes": count_new_episodes(at.run),
            "items_before": len(lessons),
            "tokens_before": sum(lesson.tokens for lesson in lessons),
        }
    )


def _judge(at: Pass) -> Found:
    """Read from the linked runs what became of the lessons they were given; count usefulness again."""
    runs = list(find_unjudged(at.run.project))
    given = find_given(runs)
    judge = RulesJudge()
    for trajectory in runs:
        judgements = judge(trajectory.as_episode(), given.get(trajectory.pk, []))
        record_verdicts(trajectory, judgements, judge=judge.name, version=judge.version)
    refresh_usefulness(used_lessons(at.run.project))
    # Counted from rows: what an attempt before this one judged belongs to the consolidation too.
    judged = UsageVerdict.objects.filter(project=at.run.project, created_at__gte=at.run.created_at)
    return Found(figures={"verdicts": judged.exclude(verdict=UsageVerdict.Verdict.UNCLEAR).count()})


def _distil(at: Pass) -> Found:
    notes = read_notes(at.run)
    groups = distilling.group_notes(notes)
    cards = distilling.distil_cards(at.run)
    drafts = at.by_model_or_rules(lambda model: model.distil(groups), lambda: distilling.distil_notes(groups))
    return Found(drafts=[*drafts, *cards], figures={"notes": len(notes) + len(cards)})


def _compare(at: Pass) -> Found:
    lessons = read_lessons(at.run.project)
    return Found(drafts=at.by_model_or_rules(lambda model: model.compare(lessons), lambda: compare_lessons(lessons)))


def _maintain(at: Pass) -> Found:
    """Look at the lessons that were followed in vain, then at those of no use."""
    lessons = read_lessons(at.run.project)
    uses = find_failed_uses(lessons)
    repairs = at.by_model_or_rules(
        lambda model: [draft for use in uses for draft in model.maintain(use)],
        lambda: [advice for use in uses if (advice := suggest_repair(use)) is not None],
    )
    concerned = {draft.heuristic_id for draft in repairs if isinstance(draft, Advice)}
    retirements = suggest_retirements(at.run.project, lessons)
    return Found(drafts=[*repairs, *(each for each in retirements if each.heuristic_id not in concerned)])


def _measure(at: Pass) -> Found:
    """Note what there would be if every open suggestion were accepted."""
    lessons = read_lessons(at.run.project)
    leaving = set(
        Suggestion.objects.filter(
            project=at.run.project,
            status=Suggestion.Status.OPEN,
            kind__in=[Suggestion.Kind.MERGE, Suggestion.Kind.RETIRE],
        ).values_list("heuristic_id", flat=True)
    )
    kept = [lesson for lesson in lessons if lesson.id not in leaving]
    return Found(figures={"items_after": len(kept), "tokens_after": _tokens(kept)})


def _tokens(lessons: Iterable[Lesson]) -> int:
    return sum(lesson.tokens for lesson in lessons)


STAGES: tuple[tuple[str, Callable[[Pass], Found]], ...] = (
    ("begin", _begin),
    ("judge", _judge),
    ("distil", _distil),
    ("compare", _compare),
    ("maintain", _maintain),
    ("measure", _measure),
)


def _leave_crashed(run: ConsolidationRun, error: Exception) -> None:
    """Record an error nobody foresaw: its kind and place, not its words, which may repeat a run."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames if "site-packages" not in f.filename]
    kind = type(error).__name__
    log.error("consolidation_crashed", error=kind, where=ours[-8:])
    message = f"An unexpected {kind} stopped it at {ours[-1]}. The worker's log has more at consolidation_crashed."
    leave(run, status=_Status.RETRY, code="unexpected_error", message=message)
