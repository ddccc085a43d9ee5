"""Find what is close to a run: lessons, by meaning or by words; other runs of its family; what was said before."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.contrib.postgres.search import SearchQuery, SearchRank
from django.db.models import (
    BooleanField,
    Exists,
    ExpressionWrapper,
    F,
    Func,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Value,
)
from django.db.models.functions import Coalesce
from pgvector import HalfVector
from pgvector.django import MaxInnerProduct

from memory.embeddings.base import Vectors, embed_composites, join_sections
from memory.embeddings.registry import get_embedder
from memory.errors import EmbedderError
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import HeuristicText
from memory.projects.models import Project
from memory.retrieval.models import HeuristicEmbedding
from memory.runs.episode import EarlierTurn, Episode
from memory.runs.models import CONVERSATION, CONVERSATION_NAMES, Trajectory, TrajectoryOutcome
from memory.runs.tools import tool_names
from memory.transcripts.log import RESPOND
from memory.trust.quarantine import leave_out_quarantined
from reflection.reflectors.base import NearHeuristic
from reflection.reflectors.rules.errors import read_error

log = structlog.get_logger(__name__)

MAX_NEAR, MAX_OF_FAMILY = 10, 3
MIN_SIMILARITY = 0.3
MAX_ERRORS = 3
MAX_QUERY_WORDS = 40
MAX_FAMILY_RUNS = 10
MAX_FAMILY_STEPS = 200
MAX_ANSWER_CHARACTERS = 20_000  # of one tool, read for the names in it
MAX_EARLIER_TURNS = 30
MAX_SEARCHED_RUNS = 1000  # for other tries of a task that has no family

_MEMBER = re.compile(r"[\"'](\w{3,60})[\"']\s?:")
_DECIDED = (TrajectoryOutcome.SUCCESS, TrajectoryOutcome.FAILURE)
_LIVE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)
_BEGAN = Coalesce("started_at", "created_at")


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbour:
    """An existing heuristic and the cosine of its lesson with another one."""

    heuristic_id: UUID
    similarity: float


def live_revisions(project: Project) -> QuerySet[HeuristicRevision]:
    """Return the newest and the served wording of each proposed or approved heuristic."""
    newest_or_served = Q(heuristic__current_revision=F("pk")) | Q(served=True)
    return (
        HeuristicRevision.objects.of_lessons()
        .for_project(project)
        .filter(newest_or_served, heuristic__status__in=_LIVE)
    )


def find_near_heuristics(project: Project, episode: Episode) -> tuple[NearHeuristic, ...]:
    """Return the existing heuristics closest to a run, at most 10, closest first.

    The newest of its family come after those that are close by their words: tasks of one kind may share no word, and
    the lessons are about what the tools do.
    """
    vectors = embed_texts(_query_texts(episode))
    near = (
        find_neighbours(project, vectors, at_least=MIN_SIMILARITY)
        if vectors is not None
        else _find_by_words(project, episode.task)
    )
    return _shown(_with_family(project, episode, near))


def _with_family(project: Project, episode: Episode, near: list[Neighbour]) -> list[Neighbour]:
    """Return the neighbours with the newest lessons of the run's family among the first."""
    if not episode.task_id:
        return near
    first = [neighbour.heuristic_id for neighbour in near[:MAX_OF_FAMILY]]
    family = live_revisions(project).filter(task_id=episode.task_id).exclude(heuristic_id__in=first)
    # Twice as many, as a heuristic may have a newest and a served wording.
    newest = family.order_by("-created_at", "-pk").values_list("heuristic_id", flat=True)[: 2 * MAX_OF_FAMILY]
    known = {neighbour.heuristic_id: neighbour for neighbour in near}
    order = dict.fromkeys([*first, *[*dict.fromkeys(newest)][:MAX_OF_FAMILY], *known])
    return [known.get(pk) or Neighbour(heuristic_id=pk, similarity=0.0) for pk in order][:MAX_NEAR]


def find_family_runs(trajectory: Trajectory, *, by_task: bool = False) -> list[Trajectory]:
    """Return other runs of the same family that are known to have succeeded or failed, at most 10 of each.

    Other tries of the same task come first. Then come runs that were given no lessons, those of the hold-out among
    them, then the newest: what they show is not an effect of lessons. Runs under a quarantine order are left out.

    Args:
        by_task: for a run without a family, return other tries of its task.
    """
    if not trajectory.task_id and not by_task:
        return []
    family = Trajectory.objects.filter(project_id=trajectory.project_id, task_id=trajectory.task_id, is_open=False)
    is_same_task = Q(task=trajectory.task)
    if not trajectory.task_id:
        # No index finds a task, so only the newest runs are searched.
        newest = family.order_by("-created_at", "-id").values("pk")[:MAX_SEARCHED_RUNS]
        family = Trajectory.objects.filter(is_same_task, pk__in=newest)
    others = (
        leave_out_quarantined(family)
        .exclude(pk=trajectory.pk)
        .alias(
            is_same_task=ExpressionWrapper(is_same_task, output_field=BooleanField()),
            step_count=Func("steps", function="jsonb_array_length", output_field=IntegerField()),
            is_guided=Coalesce(
                ExpressionWrapper(Q(retrieval__injected_ids__len__gt=0), output_field=BooleanField()), Value(False)
            ),
        )
        .filter(step_count__range=(1, MAX_FAMILY_STEPS))
        .order_by("-is_same_task", "is_guided", "-created_at", "pk")
    )
    return [run for outcome in _DECIDED for run in others.filter(outcome=outcome)[:MAX_FAMILY_RUNS]]


def find_family_names(trajectory: Trajectory) -> frozenset[str]:
    """Return the names of tools, parameters and members of answers in the newest 20 runs of the same family."""
    if not trajectory.task_id:
        return frozenset()
    others = (
        Trajectory.objects.filter(project_id=trajectory.project_id, task_id=trajectory.task_id, is_open=False)
        .exclude(pk=trajectory.pk)
        .order_by("-created_at", "pk")
    )
    names: set[str] = set()
    for tools, steps in others.values_list("tools", "steps")[: 2 * MAX_FAMILY_RUNS]:
        names.update(tool_names(tools))
        for step in steps[:MAX_FAMILY_STEPS]:
            if action := step.get("action"):
                names.update((action["name"], *_MEMBER.findall(json.dumps(action["arguments"]))))
            names.update(_MEMBER.findall((step.get("observation") or "")[:MAX_ANSWER_CHARACTERS]))
    return frozenset(names)


def find_earlier_runs(trajectory: Trajectory) -> list[Trajectory]:
    """Return the runs of the same conversation that began before this one, the first one first, at most 30.

    Runs under a quarantine order are left out.
    """
    if not trajectory.conversation:
        return []
    same_project = Trajectory.objects.filter(
        project_id=trajectory.project_id, metadata__has_any_keys=CONVERSATION_NAMES
    )
    turns = (
        leave_out_quarantined(same_project)
        .exclude(pk=trajectory.pk)
        .alias(conversation_name=CONVERSATION, began=_BEGAN)
        .filter(conversation_name=trajectory.conversation, began__lt=trajectory.started_at or trajectory.created_at)
        .order_by("-began")
        .only("task", "steps")[:MAX_EARLIER_TURNS]
    )
    return list(reversed(turns))


def leave_out_later_turns(runs: QuerySet[Trajectory]) -> QuerySet[Trajectory]:
    """Return the runs without those that another run of their conversation precedes."""
    earlier = Trajectory.objects.alias(conversation_name=CONVERSATION, began=_BEGAN).filter(
        project_id=OuterRef("project_id"),
        metadata__has_any_keys=CONVERSATION_NAMES,
        conversation_name=OuterRef("conversation_name"),
        began__lt=OuterRef("began"),
    )
    return runs.alias(conversation_name=CONVERSATION, began=_BEGAN).filter(~Exists(earlier))


def read_turn(run: Trajectory) -> EarlierTurn:
    """Return a run of a conversation in short form: the task, what was called, and the last words to the user."""
    steps = run.read_steps()
    called = dict.fromkeys(step.action.name for step in steps if step.action and step.action.name != RESPOND)
    answers = (
        str(step.action.arguments.get("content", "")) if step.action and step.action.name == RESPOND else step.thought
        for step in reversed(steps)
    )
    return EarlierTurn(task=run.task, called=tuple(called), answer=next((answer for answer in answers if answer), ""))


def embed_lesson(text: HeuristicText) -> tuple[str, Vectors] | None:
    """Return the embedder's id and the lesson's vector, made from the same text as `embed_heuristics` uses."""
    return embed_texts([(join_sections((text.trigger, text.guideline, text.avoid)),)])


def embed_texts(texts: Sequence[Sequence[str]]) -> tuple[str, Vectors] | None:
    """Return the embedder's id and a vector for each text, given as its sections.

    None where there is no embedder or it does not answer.
    """
    embedder = get_embedder()
    if embedder is None:
        return None
    try:
        return embedder.model_id, embed_composites(embedder, texts)
    # A reflection is worth more than its neighbours: without vectors it goes on by words.
    except EmbedderError as error:
        log.warning("reflection_without_embedder", reason=str(error))
        return None


def find_neighbours(project: Project, embedded: tuple[str, Vectors], *, at_least: float) -> list[Neighbour]:
    """Return the heuristics whose lesson is at least that similar to one of the vectors, at most 10, closest first."""
    model_id, vectors = embedded
    best: dict[UUID, float] = {}
    lessons = HeuristicEmbedding.objects.filter(
        project=project,
        embedding_model=model_id,
        kind=HeuristicEmbedding.Kind.LESSON,
        revision__in=live_revisions(project),
    )
    for vector in vectors:
        # Unit vectors: the inner product is the cosine. The operator gives its negative.
        distance = MaxInnerProduct("vector", HalfVector(vector.tolist()))
        neighbours = lessons.annotate(distance=distance).filter(distance__lte=-at_least).order_by("distance")
        # Twice as many, as a heuristic may have a newest and a served wording.
        for heuristic_id, negative in neighbours.values_list("heuristic_id", "distance")[: 2 * MAX_NEAR]:
            best[heuristic_id] = max(best.get(heuristic_id, -1.0), -negative)
    ranked = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Neighbour(heuristic_id=pk, similarity=similarity) for pk, similarity in ranked[:MAX_NEAR]]


def _shown(neighbours: list[Neighbour]) -> tuple[NearHeuristic, ...]:
    texts = Heuristic.objects.with_text().in_bulk([near.heuristic_id for near in neighbours])
    shown = []
    for near in neighbours:
        revision = texts[near.heuristic_id].current_revision
        if revision is not None:
            shown.append(
                NearHeuristic(
                    id=near.heuristic_id,
                    trigger=revision.trigger,
                    guideline=revision.guideline,
                    similarity=near.similarity,
                )
            )
    return tuple(shown)


def _find_by_words(project: Project, text: str) -> list[Neighbour]:
    words = dict.fromkeys(word for word in text.split() if word.isalnum())
    if not words:
        return []
    # Any of the words: a whole task hardly ever occurs in a lesson.
    query = SearchQuery(" or ".join(list(words)[:MAX_QUERY_WORDS]), config="english", search_type="websearch")
    ranked = (
        live_revisions(project)
        .filter(search=query)
        .values("heuristic_id")
        .annotate(rank=Max(SearchRank(F("search"), query)))
        .order_by("-rank", "heuristic_id")[:MAX_NEAR]
    )
    return [Neighbour(heuristic_id=row["heuristic_id"], similarity=0.0) for row in ranked]


def _query_texts(episode: Episode) -> list[tuple[str, ...]]:
    """Return texts for what a run is about: its task; and its task with its last errors and its notes."""
    errors = [error.text for step in episode.steps if (error := read_error(step))][-MAX_ERRORS:]
    notes = [*episode.mistakes[:MAX_ERRORS], *errors]
    return [(episode.task,), (episode.task, " ".join(notes))] if notes else [(episode.task,)]
