"""Choose lessons for a task in one of the modes, with what is there: whatever fails, the next best thing answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import structlog
from django.conf import settings

from memory.errors import EmbedderError
from memory.projects.models import Project
from memory.retrieval import llm_ranking
from memory.retrieval.answer import Filters
from memory.retrieval.candidates import Candidate, draw_candidates, find_candidates, get_meaning_weight
from memory.retrieval.indexed import USUAL_LIMIT
from memory.retrieval.known import KNOWN_TASKS, Known
from memory.retrieval.llm_ranking import HeuristicRanker, RankingFailed, find_ranker, rank_with_model
from memory.retrieval.models import Retrieval
from memory.retrieval.places import Ranked
from memory.retrieval.quota import find_limits
from memory.retrieval.ranking import rank, rank_as_drawn
from memory.retrieval.rerank import RerankingFailed, find_reranker, rerank
from memory.retrieval.state import Beside
from memory.retrieval.subtasks import lists_its_parts, split_task
from memory.retrieval.task_vector import active_model, embed_task

log = structlog.get_logger(__name__)

_Mode = Retrieval.Mode
AUTO = "auto"
MAX_CONSIDERED = 30  # of what was passed over, kept with the answer
_known_choices: Known[tuple[list[Candidate], "Chosen"]] = Known(KNOWN_TASKS)  # with what the numbers in the key name


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Lessons in order, the best of those passed over with their scores, and how they were chosen.

    Whoever asks the same is given the same object, as long as the candidates are the same.
    """

    ranked: list[Ranked] = field(default_factory=list)
    considered: list[tuple[Candidate, float]] = field(default_factory=list)
    candidate_count: int = 0
    mode: str = _Mode.NONE
    missing: tuple[str, ...] = ()
    subtasks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked, as far as it decides which lessons are chosen."""

    task: str
    task_id: str
    top_k: int
    filters: Filters
    seed: str | None = None
    beside: Beside | None = None


def get_default_mode() -> str:
    """Return the mode of a request that names none: what the settings say, which is `erl` where a model can rank."""
    if settings.ERL_RETRIEVE_MODE != AUTO:
        return str(settings.ERL_RETRIEVE_MODE)
    return _Mode.ERL if _get_ranker() is not None else _Mode.HYBRID


def choose_lessons(project: Project, question: Question, *, mode: str) -> Chosen:
    """Choose lessons, best first. May ask services over the network, so call it with no transaction open.

    Whatever `question.beside` wants may have come along.
    """
    if mode == _Mode.NONE or question.top_k == 0:
        return Chosen()
    if mode == _Mode.RANDOM:
        seed = question.seed or question.task
        drawn = draw_candidates(project.pk, seed=seed, filters=question.filters, limit=question.top_k)
        return Chosen(ranked=rank_as_drawn(drawn), candidate_count=len(drawn), mode=mode)
    return _choose_by_model(project, question) if mode == _Mode.ERL else _choose_by_likeness(project, question, mode)


def _choose_by_model(project: Project, question: Question) -> Chosen:
    ranker = _get_ranker()
    if ranker is None:
        return _fall_back(project, question, "not configured")
    if llm_ranking.breaker.is_resting:  # known before the pool is fetched for it
        return _fall_back(project, question, llm_ranking.RESTING)
    found, _answered, missing = _search(project, _alone(question), _Mode.HYBRID, limit=llm_ranking.MAX_POOL + 1)
    limits = find_limits(project.pk, task_id=question.task_id, max_per_source=settings.ERL_RETRIEVE_MAX_PER_SOURCE)
    try:
        ranked = rank_with_model(
            ranker,
            project,
            task=question.task,
            candidates=found,
            top_k=question.top_k,
            limits=limits,
            deadline_seconds=settings.ERL_RANKING_DEADLINE_SECONDS,
        )
    except RankingFailed as error:
        log.warning("ranking_failed", reason=str(error))
        return _fall_back(project, question, str(error))
    return Chosen(
        ranked=ranked,
        considered=_pass_over(found, ranked),
        candidate_count=len(found),
        mode=_Mode.ERL,
        missing=tuple(missing),
        subtasks=tuple(dict.fromkeys(place.subtask for place in ranked if place.subtask)),
    )


def _fall_back(project: Project, question: Question, reason: str) -> Chosen:
    chosen = _choose_by_likeness(project, question, _Mode.HYBRID)
    return replace(chosen, missing=(f"language model ({reason})", *chosen.missing))


def _choose_by_likeness(project: Project, question: Question, mode: str) -> Chosen:
    wanted = max(USUAL_LIMIT, 2 * question.top_k)
    reranker = find_reranker() if mode == _Mode.HYBRID else None
    if reranker is not None:
        question = _alone(question)
    found, answered, missing = _search(project, question, mode, limit=wanted)
    reranked = None
    if reranker is not None and found:
        try:
            found, reranked = rerank(reranker, task=question.task, candidates=found)
        except RerankingFailed as error:
            log.warning("reranking_failed", reason=str(error))
            missing.append(f"reranker ({error})")
    limits = find_limits(project.pk, task_id=question.task_id, max_per_source=settings.ERL_RETRIEVE_MAX_PER_SOURCE)
    # Candidates that are the same objects were found in the same state of the project.
    key = (tuple(map(id, found)), question.task, question.task_id, question.top_k, answered, limits)
    plain = reranked is None and not missing
    if plain and (known := _known_choices.find(key)) is not None:
        return known[1]
    parts = split_task(question.task)
    ranked = rank(
        found,
        task_id=question.task_id,
        top_k=question.top_k,
        mode=answered,
        limits=limits,
        parts=parts,
        covers_parts=lists_its_parts(question.task),
        reranked=reranked,
    )
    chosen = Chosen(
        ranked=ranked,
        considered=_pass_over(found, ranked),
        candidate_count=len(found),
        mode=answered,
        missing=tuple(missing),
        subtasks=parts,
    )
    if plain:
        _known_choices.keep(key, (found, chosen))
    return chosen


def _alone(question: Question) -> Question:
    """Ask nothing beside, where another service is asked next: what was read before may be gone when it answers."""
    return replace(question, beside=None)


def _pass_over(found: Sequence[Candidate], ranked: Sequence[Ranked]) -> list[tuple[Candidate, float]]:
    chosen = {place.candidate.heuristic_id.int for place in ranked}  # the hash of a UUID is computed in Python
    return [(one, one.score) for one in found if one.heuristic_id.int not in chosen][:MAX_CONSIDERED]


def _search(project: Project, question: Question, mode: str, *, limit: int) -> tuple[list[Candidate], str, list[str]]:
    """Return the candidates, the mode they were found in and what was missing."""
    task = question.task
    search = partial(
        find_candidates, project.pk, text=task, filters=question.filters, limit=limit, beside=question.beside
    )
    missing = "embedder"
    for _ in range(2 if mode != _Mode.LEXICAL else 0):
        try:
            model_id, vector = embed_task(task)
        except EmbedderError as error:
            log.warning("task_not_embedded", reason=str(error))
            break
        found = search(
            vector=vector,
            model_id=model_id,
            meaning_weight=1.0 if mode == _Mode.EMBEDDING else get_meaning_weight(task),
        )
        if not found or any(candidate.meaning is not None for candidate in found):
            return found, mode, []
        # Another model became active a moment ago, or the vectors are not made yet.
        missing = "vectors"
        active_model.forget()
    degraded = [missing] if mode != _Mode.LEXICAL else []
    return search(vector=None, model_id="", meaning_weight=0.0), _Mode.LEXICAL, degraded


def _get_ranker() -> HeuristicRanker | None:
    """Return who ranks; a provider that is configured wrongly is none."""
    try:
        return find_ranker()
    except RankingFailed:
        return None
