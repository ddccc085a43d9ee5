"""Take over an agent's own memory file: its episodes become runs, its mistakes cards, its rules proposals."""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeGuard
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from memory.curation.proposals import propose_heuristic
from memory.episodes.models import MemoryImport
from memory.errors import InvalidMemoryFile
from memory.heuristics.models import Heuristic
from memory.heuristics.rules import make_rule, split_mark
from memory.limits import FILE_JSON, MAX_LESSON_TEXT_CHARS, MAX_STATED_STEPS
from memory.mistakes.counts import recount
from memory.mistakes.merge import settle_cards
from memory.mistakes.models import MistakeCard
from memory.mistakes.sightings import identify_mistake, note_words, read_mistake
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.redaction.visible_text import is_visible
from memory.runs.models import Trajectory
from memory.runs.scores import outcome_of
from memory.strict_json import check_json

REFLECTOR = "import"
FIRST_YEAR, LAST_YEAR = 1970, 2199  # what an episode says beyond is no time; the database keeps years Python has not
MAX_SEEN = 1_000_000  # one card; sums of them stay numbers the database can keep
_LISTS = ("global_rules", "episode_log", "mistakes", "mistake_cards", "successes")
_OBJECTS = ("task_rules", "score_history")
_EPISODE_TEXTS = ("task", "task_id", "summary", "agent", "model")


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """What an import made; `known` is true where the same file was imported before and nothing was done."""

    row: MemoryImport
    known: bool
    episodes: int = 0
    scores: int = 0
    rules: int = 0
    cards: int = 0


@transaction.atomic
def import_memory(project: Project, *, document: Any, by: Actor, agent: str = "") -> Imported:
    """Import a memory file without loss; importing it again changes nothing.

    Rules and mistake cards wait for review: nothing of the file is given to agents unread. Scores that have no episode
    in the file become runs of their own, so that counts and means go on from where they were. Of a file that is
    imported again after it has grown, only what is new is added.

    Args:
        document: the file's JSON object (version, global_rules, task_rules, episode_log, score_history, mistakes,
            mistake_cards, successes; all may be missing, others are kept).
        agent: whose memory it is, for episodes that do not say.

    Raises:
        InvalidMemoryFile: it is no such object; the message names the place.
        InvalidJson: it has a text or a number that cannot be kept.
    """
    check_json(document, limits=FILE_JSON)
    _check(document)
    clean = redact(document).value
    sha256 = hashlib.sha256(json.dumps(clean, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    project = Project.objects.select_for_update(no_key=True).get(pk=project.pk)  # one import at a time
    known = MemoryImport.objects.filter(project=project, content_sha256=sha256).first()
    if known is not None:
        return Imported(row=known, known=True)
    before = dict.fromkeys(("episodes", "scores", "rules", "cards"), 0)
    maker = _Maker(project=project, by=by, agent=agent, made=Counter(before))
    outline = {
        **clean,
        **maker.take_rules(clean),
        "score_history": maker.take_scores(clean),  # before the episodes: they are older
        "episode_log": maker.take_episodes(clean.get("episode_log", [])),
        "mistake_cards": maker.take_cards(clean.get("mistake_cards", [])),
    }
    outline = {name: outline[name] for name in clean}  # what the file does not have is not made up
    row = MemoryImport.objects.create(project=project, content_sha256=sha256, outline=outline, imported_by=by.label)
    return Imported(row=row, known=False, **maker.made)


@dataclass(kw_only=True, slots=True)
class _Maker:
    """Makes the rows of one file and returns, part by part, the outline that stands for the file."""

    project: Project
    by: Actor
    agent: str
    made: Counter[str]

    def take_rules(self, document: dict[str, Any]) -> dict[str, Any]:
        of_tasks = document.get("task_rules", {})
        return {
            "global_rules": [self._take_rule(rule, "") for rule in document.get("global_rules", [])],
            "task_rules": {
                task_id: [self._take_rule(rule, task_id) for rule in rules] for task_id, rules in of_tasks.items()
            },
        }

    def _take_rule(self, rule: Any, task_id: str) -> Any:
        """Propose a rule, unless one says the same; what nobody could review as a lesson is kept as it is.

        That is what is no text, shows nothing, or is longer than the API takes a lesson.
        """
        words = rule if isinstance(rule, str) else ""
        polarity, said = split_mark(words)
        if not is_visible(said) or len(said) > MAX_LESSON_TEXT_CHARS:
            return rule
        text = make_rule(said, polarity=polarity, task_id=task_id)
        same = Heuristic.objects.filter(
            project=self.project,
            current_revision__guideline=said,
            current_revision__task_id=task_id,
            current_revision__polarity=polarity,
        ).first()
        if same is None:
            same = propose_heuristic(self.project, text=text, by=self.by, reflector=REFLECTOR)
            self.made["rules"] += 1
        return {"heuristic": str(same.pk), "text": rule}

    def take_episodes(self, episodes: list[Any]) -> list[Any]:
        seen: Counter[str] = Counter()
        return [{"trajectory": str(self._take_episode(episode, seen))} for episode in episodes]

    def _take_episode(self, episode: dict[str, Any], seen: Counter[str]) -> UUID:
        name = _hash(episode)
        seen[name] += 1
        fields = {each: str(episode[each]) for each in _EPISODE_TEXTS if episode.get(each)}
        task_id, agent = fields.get("task_id", ""), fields.get("agent", "") or self.agent
        steps = episode.get("steps")
        return self._make_run(
            f"memory-import:{name}:{seen[name]}",
            "episodes",
            task=fields.get("task") or task_id or "imported episode",
            task_id=task_id,
            agent=agent,
            model=fields.get("model", ""),
            score=_score(episode.get("score")),
            summary=fields.get("summary", ""),
            mistakes=_texts(episode.get("mistakes")),
            successes=_texts(episode.get("successes")),
            created_at=_time_of(episode) or timezone.now(),
            stated_step_count=steps if _is_count(steps) and steps <= MAX_STATED_STEPS else None,
            metadata={"agent_memory": episode},
        )

    def take_scores(self, document: dict[str, Any]) -> dict[str, Any]:
        """Make runs of the scores that no episode of the file stands for: all but the newest of each task."""
        logged = Counter(
            str(episode.get("task_id", ""))
            for episode in document.get("episode_log", [])
            if _score(episode.get("score")) is not None
        )
        times = [at for at in map(_time_of, document.get("episode_log", [])) if at is not None]
        before = min(times, default=timezone.now()) - timedelta(seconds=1)
        outline: dict[str, Any] = {}
        for task_id, scores in document.get("score_history", {}).items():
            if not isinstance(scores, list):
                outline[task_id] = scores
                continue
            alone = scores[: max(0, len(scores) - logged[task_id])]
            seen: Counter[str] = Counter()
            ids = []
            for place, score in enumerate(alone):
                seen[_hash(score)] += 1
                number = f"{_hash([task_id, score])}:{seen[_hash(score)]}"
                run = self._make_run(
                    f"memory-import:score:{number}",
                    "scores",
                    task=task_id or "imported score",
                    task_id=task_id,
                    agent=self.agent,
                    score=_score(_number(score)),
                    created_at=before - timedelta(milliseconds=len(alone) - place),
                    metadata={"agent_memory_score": score},
                )
                ids.append({"trajectory": str(run)})
            outline[task_id] = [*ids, *scores[len(alone) :]]
        return outline

    def take_cards(self, cards: list[Any]) -> list[Any]:
        return [self._take_card(card) for card in cards]

    def _take_card(self, raw: Any) -> Any:
        text = read_mistake(raw) if isinstance(raw, dict) else None
        if text is None:
            return raw
        count = raw.get("seen_count", 1)
        count = min(count, MAX_SEEN) if _is_count(count) and count else 1
        card, made = MistakeCard.objects.select_for_update().get_or_create(
            project=self.project,
            identity_sha256=identify_mistake(text),
            defaults={
                "mistake_type": text.mistake_type,
                "task_id": text.task_id,
                "worker_id": text.worker_id,
                "client": self.by.label,
            },
        )
        note_words(card, text, trajectory=None, by=self.by, is_new=made)
        self.made["cards"] += made
        if made:
            transaction.on_commit(partial(settle_cards, [card.pk], new_ids=[card.pk]), robust=True)
        card.imported_count = max(card.imported_count, count)
        card.imported = raw
        card.save(update_fields=["imported_count", "imported"])
        recount(card)
        return {"card": str(card.pk)}

    def _make_run(self, external_id: str, kind: str, **fields: Any) -> UUID:
        score = fields.get("score")
        run, made = Trajectory.objects.get_or_create(
            project=self.project,
            external_id=external_id,
            defaults={
                **fields,
                "outcome": _outcome(score),
                "client": self.by.label,
            },
        )
        self.made[kind] += made
        return run.pk


def _check(document: Any) -> None:
    if not isinstance(document, dict):
        raise InvalidMemoryFile("The file is no JSON object. Export it from the agent again.")
    for name in _LISTS:
        if not isinstance(document.get(name, []), list):
            raise InvalidMemoryFile(f"{name} is no list. Correct the file and import it again.")
    for name in _OBJECTS:
        if not isinstance(document.get(name, {}), dict):
            raise InvalidMemoryFile(f"{name} is no object. Correct the file and import it again.")
    for task_id, rules in document.get("task_rules", {}).items():
        if not isinstance(rules, list):
            raise InvalidMemoryFile(f"task_rules.{task_id} is no list. Correct the file and import it again.")
    for number, episode in enumerate(document.get("episode_log", [])):
        if not isinstance(episode, dict):
            raise InvalidMemoryFile(f"episode_log[{number}] is no object. Correct the file and import it again.")
        score = episode.get("score")
        if score is not None and _score(score) is None:
            raise InvalidMemoryFile(f"episode_log[{number}].score is no number from 0 to 1. Correct it first.")


def _score(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)


def _number(value: Any) -> Any:
    """Return the score of an entry that is one, or that has one as a member."""
    return value.get("score") if isinstance(value, dict) else value


def _outcome(score: float | None) -> str:
    return Trajectory.Outcome.UNKNOWN if score is None else outcome_of(score)


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _time_of(episode: dict[str, Any]) -> datetime | None:
    """Return when an episode says it was, where that can be read and is a time."""
    try:
        at = datetime.fromisoformat(str(episode.get("timestamp", "")))
    except ValueError:
        return None
    is_time = FIRST_YEAR <= at.year <= LAST_YEAR
    return None if not is_time else at if at.tzinfo else at.replace(tzinfo=UTC)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value if str(each).strip()] if isinstance(value, list) else []


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:24]
