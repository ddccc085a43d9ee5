"""Which lessons a task is given, in one of the modes. If a service fails, the next best method answers."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import structlog
from django.conf import settings

from memory.errors import EmbedderError
from memory.retrieval.candidates import Candidate, draw_candidates, find_candidates
from memory.retrieval.cross_encoder import RerankingFailed, find_reranker, rerank
from memory.retrieval.database_search import USUAL_LIMIT, Search
from memory.retrieval.limits import AnswerLimits
from memory.retrieval.llm_ranking import MAX_POOL, RankingFailed, get_ranker, rank_with_model
from memory.retrieval.models import Retrieval
from memory.retrieval.project_state import ProjectState
from memory.retrieval.question import PATIENCE_SECONDS, Question
from memory.retrieval.ranking import Ranked, find_floor, rank, rank_as_drawn, split_by_tools, weigh_meaning
from memory.retrieval.scoring import measure_fit
from memory.retrieval.subtasks import split_task
from memory.retrieval.task_vector import AskedOnce
from memory.retrieval.tools import ToolsOnOffer

log = structlog.get_logger(__name__)

_Mode = Retrieval.Mode
MAX_CONSIDERED = 30  # of what was passed over, kept with the answer


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Lessons in order, the best of those passed over, and how they were chosen.

    `mode` is the one that answered, `missing` what was not available. `asked_service` says that the choice was left to
    a service that may have taken seconds and need not say the same again, `asked_runs` that the tools of the agent's
    newest runs decided with.
    """

    ranked: list[Ranked] = field(default_factory=list)
    considered: list[Candidate] = field(default_factory=list)
    candidate_count: int = 0
    mode: str = _Mode.NONE
    missing: tuple[str, ...] = ()
    subtasks: tuple[str, ...] = ()
    asked_service: bool = False
    asked_runs: bool = False


NO_SELECTION = Selection()


def get_default_mode() -> str:
    """Return the mode of a request that names none, which the settings say."""
    return str(settings.ERL_RETRIEVE_MODE)


def select_heuristics(question: Question, state: ProjectState, *, mode: str, top_k: int) -> Selection:
    """Choose lessons, best first. May ask services over the network, so call it with no transaction open."""
    tools = ToolsOnOffer(question)
    if mode == _Mode.RANDOM:
        seed = question.seed or question.task
        release_id = state.release_id
        drawn = draw_candidates(
            question.project.pk,
            seed=seed,
            filters=question.filters,
            limit=top_k,
            release_id=release_id,
            as_of=question.as_of,
        )
        ranked = rank_as_drawn(drawn, tools)
        return Selection(ranked=ranked, candidate_count=len(drawn), mode=mode, asked_runs=tools.asked_runs)
    vector = AskedOnce(question.task, state.model_id)
    if mode != _Mode.ERL:
        return _select_by_similarity(question, state, vector, tools, mode=mode, top_k=top_k)
    started = time.monotonic()
    try:
        return _select_by_model(question, state, vector, tools, top_k=top_k)
    except RankingFailed as error:
        # After a long wait no second service is asked that might take as long.
        is_late = time.monotonic() - started > PATIENCE_SECONDS
        selection = _select_by_similarity(
            question, state, vector, tools, mode=_Mode.HYBRID, top_k=top_k, is_late=is_late
        )
        missing = (f"language model ({error})", *selection.missing)
        return replace(selection, missing=missing, asked_service=True)


def _select_by_model(
    question: Question, state: ProjectState, vector: AskedOnce, tools: ToolsOnOffer, *, top_k: int
) -> Selection:
    ranker = get_ranker()
    candidates, _, missing = _search(question, state, vector, mode=_Mode.HYBRID, limit=MAX_POOL + 1)
    limits = AnswerLimits.of_family(state.quotas, question.task_id)
    usable, lacking = split_by_tools(candidates, tools)
    ranked = [*rank_with_model(ranker, question, usable, top_k=top_k, limits=limits), *lacking[:top_k]]
    return Selection(
        ranked=ranked,
        considered=_pass_over(candidates, ranked),
        candidate_count=len(candidates),
        mode=_Mode.ERL,
        missing=missing,
        subtasks=tuple(dict.fromkeys(lesson.subtask for lesson in ranked if lesson.subtask)),
        asked_service=True,
    )


def _select_by_similarity(
    question: Question,
    state: ProjectState,
    vector: AskedOnce,
    tools: ToolsOnOffer,
    *,
    mode: str,
    top_k: int,
    is_late: bool = False,
) -> Selection:
    candidates, answered, missing = _search(question, state, vector, mode=mode, limit=max(USUAL_LIMIT, 2 * top_k))
    reranker = find_reranker() if mode == _Mode.HYBRID and not is_late else None
    if reranker is not None:
        try:
            candidates = rerank(reranker, task=question.task, candidates=candidates)
        except RerankingFailed as error:
            log.warning("reranking_failed", reason=str(error))
            missing = (*missing, f"reranker ({error})")
    limits = AnswerLimits.of_family(state.quotas, question.task_id)
    floor = find_floor(answered, state.language, state.floors)
    ranked = rank(candidates, question, top_k=top_k, mode=answered, limits=limits, tools=tools, floor=floor)
    return Selection(
        ranked=ranked,
        considered=_pass_over(candidates, ranked),
        candidate_count=len(candidates),
        mode=answered,
        missing=missing,
        subtasks=split_task(question.task),
        asked_service=reranker is not None,
        asked_runs=tools.asked_runs,
    )


def _search(
    question: Question, state: ProjectState, task_vector: AskedOnce, *, mode: str, limit: int
) -> tuple[list[Candidate], str, tuple[str, ...]]:
    """Return the candidates, the mode they were found in and what was missing.

    Without vectors words alone decide. In a language that the embedding model does not know, they decide which lessons
    fit: to it, all texts in that language are similar.
    """
    task = question.task
    by_words = Search(
        project_id=question.project.pk,
        task=task,
        filters=question.filters,
        limit=limit,
        release_id=state.release_id,
        as_of=question.as_of,
    )
    missing: tuple[str, ...] = ()
    is_known = state.floors is None or state.language in state.floors
    if mode != _Mode.LEXICAL:
        try:
            model_id, vector = task_vector.embed()
        except EmbedderError as error:
            log.warning("task_not_embedded", reason=str(error))
            missing = ("embedder",)
        else:
            weight = 1.0 if mode == _Mode.EMBEDDING else weigh_meaning(state.language, state.floors)
            by_meaning = replace(by_words, vector=vector, model_id=model_id, meaning_weight=weight)
            candidates = find_candidates(by_meaning, state)
            if not is_known:
                candidates = [_fit_by_words(candidate, weight) for candidate in candidates]
            if not candidates or any(candidate.parts.meaning is not None for candidate in candidates):
                # Scripts and languages that have no name here are `other`.
                language = "its language" if state.language == "other" else state.language.capitalize()
                return candidates, mode, () if is_known else (f"meaning (the model does not know {language})",)
            missing = ("vectors",)  # they are not made yet, or another model became active a moment ago
    return find_candidates(by_words, state), _Mode.LEXICAL, missing


def _fit_by_words(candidate: Candidate, meaning_weight: float) -> Candidate:
    words = (candidate.parts.words or 0.0) / (1 - meaning_weight) if meaning_weight < 1 else 0.0
    named_share = candidate.naming.share if candidate.naming is not None else 0.0
    return candidate._replace(similarity=measure_fit(None, words, (), named_share=named_share))


def _pass_over(found: Sequence[Candidate], ranked: Sequence[Ranked]) -> list[Candidate]:
    chosen = {lesson.candidate.heuristic_id.int for lesson in ranked}  # the hash of a UUID is computed in Python
    return [candidate for candidate in found if candidate.heuristic_id.int not in chosen][:MAX_CONSIDERED]
