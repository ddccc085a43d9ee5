"""Run a consolidation: claim it, and stage by stage read, find, and write what was found with the stage's name."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from memory.effects.models import UsageVerdict
from memory.effects.uses import refresh_uses
from memory.redaction import redact
from reflection.consolidation import distillation
from reflection.consolidation.adherence import (
    JUDGE,
    VERSION,
    find_given,
    find_unjudged,
    judge_by_calls,
    record_verdicts,
)
from reflection.consolidation.comparison import compare_lessons
from reflection.consolidation.drafts import Advice, Draft
from reflection.consolidation.maintenance import find_failed_uses, suggest_repair
from reflection.consolidation.model import ModelConsolidator
from reflection.consolidation.models import KIND, ConsolidationRun, Suggestion
from reflection.consolidation.requests import count_new_episodes
from reflection.consolidation.results import mark_outdated, write_drafts
from reflection.consolidation.retirement_suggestions import suggest_retirements, used_lessons
from reflection.consolidation.sources import Lesson, read_lessons, read_notes
from reflection.errors import LostClaim, ReflectionError
from reflection.jobs.execution import Heartbeat, carry_out
from reflection.jobs.queue import claim, finish, hold, note
from reflection.llm.calls import Ask, RememberedAsk, ask_to_consolidate
from reflection.llm.registry import configured_model, find_config

log = structlog.get_logger(__name__)

MAX_DROPPED = 50  # sentences about what was left out


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One attempt at a consolidation and what its stages work with."""

    run: ConsolidationRun
    model: ModelConsolidator | None = None

    def by_model_or_rules(
        self, ask: Callable[[ModelConsolidator], Sequence[Draft]], rules: Callable[[], Sequence[Draft]]
    ) -> Sequence[Draft]:
        """Return what the model proposes, or what the rules do where there is no model or it fails, which is noted."""
        if self.model is None or self.run.fallback:
            return rules()
        try:
            drafts = ask(self.model)
        # Another worker goes on with the job: the rules must not write beside it.
        except LostClaim:
            raise
        except ReflectionError as error:
            # Kept with the run, so that people see why the model's part is missing.
            self.run.result["fallback"] = redact(str(error)).value[:500]
            log.warning("consolidation_by_rules", code=error.code)
            return rules()
        self.run.result |= {"method": "llm", "prompt_version": self.model.prompt_version}
        # A later attempt goes on with what the earlier one has noted.
        self.run.result["dropped"] = list(dict.fromkeys([*self.run.dropped, *self.model.dropped]))[:MAX_DROPPED]
        return drafts


@dataclass(frozen=True, kw_only=True, slots=True)
class StageResult:
    """What a stage found: drafts to write, and figures for the run's row."""

    drafts: Sequence[Draft] = ()
    figures: dict[str, int] | None = None


def run_consolidation(
    run_id: UUID | None = None, *, owner: str, ask_model: Ask = ask_to_consolidate
) -> ConsolidationRun | None:
    """Claim one consolidation, or the one that is due longest, and carry it out; None where there is none.

    What goes wrong is written on the row. Raises only what stops the process.
    """
    run = claim(KIND, run_id, owner=owner, model=ConsolidationRun)
    if run is None:
        return None
    carry_out(run, partial(_see_through, run, ask_model=ask_model))
    return ConsolidationRun.objects.select_related("project").filter(pk=run.pk).first()


def _see_through(run: ConsolidationRun, heartbeat: Heartbeat, *, ask_model: Ask) -> None:
    at = Pass(run=run, model=_find_model(run, heartbeat, ask_model=ask_model))
    for name, stage in STAGES:
        heartbeat.ensure_held()
        # An earlier attempt may have written some stages, and each is written once.
        if name not in run.stages_done:
            _do(run, name, stage(at))
    finish(run)


def _find_model(run: ConsolidationRun, heartbeat: Heartbeat, *, ask_model: Ask) -> ModelConsolidator | None:
    """Return what asks the model; None where reflections do without one too."""
    if settings.ERL_REFLECTOR == "rules" or (settings.ERL_REFLECTOR == "auto" and find_config("consolidate") is None):
        return None
    ask = RememberedAsk(run, heartbeat, ask_model=ask_model, use="consolidate")
    return ModelConsolidator(ask=ask, model=configured_model("consolidate"))


@transaction.atomic
def _do(run: ConsolidationRun, name: str, found: StageResult) -> None:
    """Write what a stage found and that it is done, together or not at all.

    Raises:
        LostClaim: another worker holds the run.
    """
    # The row stays locked until the commit, so no other worker can take the run in between.
    hold(run)
    counts = write_drafts(run, found.drafts)
    note(
        run,
        stages_done=[*run.stages_done, name],
        heuristics_proposed=run.heuristics_proposed + counts["proposed"],
        heuristics_supported=run.heuristics_supported + counts["supported"],
        suggestions_made=run.suggestions_made + counts["suggested"],
        method=run.method or "rules",
        version=distillation.VERSION,
        prompt_version=run.prompt_version,
        fallback=run.fallback,
        dropped=run.dropped,
        **(found.figures or {}),
    )
    log.info("consolidation_stage_done", stage=name, **counts)


def _begin(at: Pass) -> StageResult:
    """Count what there is, and close suggestions about lessons that have been decided on."""
    mark_outdated(at.run)
    lessons = read_lessons(at.run.project)
    return StageResult(
        figures={
            "episodes": count_new_episodes(at.run),
            "items_before": len(lessons),
            "tokens_before": sum(lesson.tokens for lesson in lessons),
        }
    )


def _judge(at: Pass) -> StageResult:
    """Read from the linked runs whether the lessons they were given were followed; recompute usefulness."""
    runs = list(find_unjudged(at.run.project))
    given = find_given(runs)
    for trajectory in runs:
        episode = trajectory.as_episode()
        judgements = [judge_by_calls(revision, episode) for revision in given.get(trajectory.pk, [])]
        record_verdicts(trajectory, judgements, judge=JUDGE, version=VERSION)
    refresh_uses(used_lessons(at.run.project))
    # Counted from rows, because what an earlier attempt judged belongs to the consolidation too.
    judged = UsageVerdict.objects.of_judges().filter(project=at.run.project, created_at__gte=at.run.created_at)
    return StageResult(figures={"verdicts": judged.exclude(verdict=UsageVerdict.Verdict.UNCLEAR).count()})


def _distil(at: Pass) -> StageResult:
    notes = read_notes(at.run)
    groups = distillation.group_notes(notes)
    drafts = at.by_model_or_rules(lambda model: model.distil(groups), lambda: distillation.distil_notes(groups))
    return StageResult(drafts=drafts, figures={"notes": len(notes)})


def _compare(at: Pass) -> StageResult:
    lessons = read_lessons(at.run.project)
    return StageResult(
        drafts=at.by_model_or_rules(lambda model: model.compare(lessons), lambda: compare_lessons(lessons))
    )


def _maintain(at: Pass) -> StageResult:
    """Look at the lessons that runs followed and failed, then at those of no use."""
    lessons = read_lessons(at.run.project)
    uses = find_failed_uses(lessons)
    repairs = at.by_model_or_rules(
        lambda model: [draft for use in uses for draft in model.maintain(use)],
        lambda: [advice for use in uses if (advice := suggest_repair(use)) is not None],
    )
    concerned = {draft.heuristic_id for draft in repairs if isinstance(draft, Advice)}
    retirements = suggest_retirements(at.run.project, lessons)
    return StageResult(
        drafts=[*repairs, *(retirement for retirement in retirements if retirement.heuristic_id not in concerned)]
    )


def _measure(at: Pass) -> StageResult:
    """Count what would be left if every open suggestion were accepted."""
    lessons = read_lessons(at.run.project)
    leaving = set(
        Suggestion.objects.filter(
            project=at.run.project,
            status=Suggestion.Status.OPEN,
            kind__in=[Suggestion.Kind.MERGE, Suggestion.Kind.RETIRE],
        ).values_list("heuristic_id", flat=True)
    )
    kept = [lesson for lesson in lessons if lesson.id not in leaving]
    return StageResult(figures={"items_after": len(kept), "tokens_after": _tokens(kept)})


def _tokens(lessons: Iterable[Lesson]) -> int:
    return sum(lesson.tokens for lesson in lessons)


STAGES: tuple[tuple[str, Callable[[Pass], StageResult]], ...] = (
    ("begin", _begin),
    ("judge", _judge),
    ("distil", _distil),
    ("compare", _compare),
    ("maintain", _maintain),
    ("measure", _measure),
)
