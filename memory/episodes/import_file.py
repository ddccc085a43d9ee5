"""Import an agent's own memory file: its episodes become runs, its mistakes cards, its rules proposals."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from memory.after_commit import after_commit
from memory.curation.proposals import propose_heuristic
from memory.episodes.file_format import (
    check_document,
    hash_value,
    is_count,
    read_score,
    read_texts,
    read_time,
)
from memory.episodes.models import MemoryImport
from memory.heuristics.models import Heuristic
from memory.heuristics.text import Authorship, make_rule, split_mark
from memory.limits import FILE_JSON, MAX_LESSON_TEXT_CHARS, MAX_STATED_STEPS
from memory.mistakes.counts import recount
from memory.mistakes.decisions import note_words
from memory.mistakes.models import MistakeCard
from memory.mistakes.policy import settle_cards
from memory.mistakes.reports import identify_mistake, read_mistake
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact
from memory.redaction.visible_text import is_visible
from memory.runs.models import Trajectory
from memory.runs.scores import outcome_of
from memory.strict_json import check_json
from memory.transcripts.lesson_blocks import read_task

REFLECTOR = "import"
MAX_SEEN = 1_000_000  # of one card, so that sums still fit the database
_EPISODE_TEXTS = ("task", "task_id", "summary", "agent", "model")


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """How many rows an import made. `already_imported`: the same file was imported before, and nothing was done."""

    row: MemoryImport
    already_imported: bool
    episodes: int = 0
    scores: int = 0
    rules: int = 0
    cards: int = 0


@transaction.atomic
def import_memory(project: Project, *, document: Any, by: Actor, agent: str = "") -> Imported:
    """Import a memory file without loss; importing it again changes nothing.

    Rules and mistake cards wait for review, so agents are given nothing of the file unread. Scores without an episode
    become runs of their own, so that counts and means continue. If a file has grown since it was imported, only what is
    new is added.

    Args:
        document: the file's JSON object, see `memory.episodes.file_format`.
        agent: the agent whose memory it is, for episodes that name none.

    Raises:
        InvalidMemoryFile: a part of it has the wrong type; the message names the part.
        InvalidJson: it has a text or a number that cannot be stored.
    """
    check_json(document, limits=FILE_JSON)
    check_document(document)
    # Before the hash, which would otherwise let a guessed secret be tested against it.
    clean = redact(document).value
    sha256 = hash_value(clean)
    project = Project.objects.select_for_update(no_key=True).get(pk=project.pk)  # one import at a time
    earlier = MemoryImport.objects.filter(project=project, content_sha256=sha256).first()
    if earlier is not None:
        return Imported(row=earlier, already_imported=True)
    importer = _Importer(project=project, by=by, agent=agent)
    row = MemoryImport.objects.create(
        project=project, content_sha256=sha256, outline=importer.import_document(clean), imported_by=by.label
    )
    return Imported(row=row, already_imported=False, **importer.made)


@dataclass(kw_only=True, slots=True)
class _Importer:
    """Makes rows of the parts of one file. Each method returns the outline of its part, with row ids for contents."""

    project: Project
    by: Actor
    agent: str
    made: Counter[str] = field(default_factory=Counter)

    def import_document(self, document: dict[str, Any]) -> dict[str, Any]:
        parts: dict[str, Any] = {
            "global_rules": self.import_rules,
            "task_rules": lambda tasks: {name: self.import_rules(rules, task_id=name) for name, rules in tasks.items()},
            # Before the episodes, which are newer.
            "score_history": lambda tasks: self.import_scores(tasks, document.get("episode_log", [])),
            "episode_log": self.import_episodes,
            "mistake_cards": lambda cards: [self.import_card(card) for card in cards],
        }
        done = {name: make(document[name]) for name, make in parts.items() if name in document}
        return {name: done.get(name, value) for name, value in document.items()}

    def import_rules(self, rules: list[Any], *, task_id: str = "") -> list[Any]:
        return [self._import_rule(rule, task_id) for rule in rules]

    def _import_rule(self, rule: Any, task_id: str) -> Any:
        """Propose a rule unless an equal one exists. What could not be reviewed stays in the outline as it is.

        That is anything but a text, a text without visible characters, or one longer than the API accepts.
        """
        polarity, words = split_mark(rule if isinstance(rule, str) else "")
        if not is_visible(words) or len(words) > MAX_LESSON_TEXT_CHARS:
            return rule
        heuristic = Heuristic.objects.filter(
            project=self.project,
            current_revision__guideline=words,
            current_revision__task_id=task_id,
            current_revision__polarity=polarity,
        ).first()
        if heuristic is None:
            text = make_rule(words, polarity=polarity, task_id=task_id)
            origin = Authorship(reflector=REFLECTOR, client=self.by.label)
            heuristic = propose_heuristic(self.project, text=text, by=self.by, origin=origin)
            self.made["rules"] += 1
        return {"heuristic": str(heuristic.pk), "text": rule}

    def import_episodes(self, episodes: list[dict[str, Any]]) -> list[Any]:
        copies: Counter[str] = Counter()  # equal episodes are told apart by their number
        outline = []
        for episode in episodes:
            digest = hash_value(episode)[:24]
            copies[digest] += 1
            outline.append(self._make_run("episodes", f"{digest}:{copies[digest]}", **self._read_episode(episode)))
        return outline

    def _read_episode(self, episode: dict[str, Any]) -> dict[str, Any]:
        texts = {name: str(episode[name]) for name in _EPISODE_TEXTS if episode.get(name)}
        steps = episode.get("steps")
        return {
            **texts,
            "task": read_task(texts.get("task") or texts.get("task_id") or "imported episode"),
            "agent": texts.get("agent") or self.agent,
            "score": read_score(episode.get("score")),
            "mistakes": read_texts(episode.get("mistakes")),
            "successes": read_texts(episode.get("successes")),
            "created_at": read_time(episode) or timezone.now(),
            "stated_step_count": steps if is_count(steps) and steps <= MAX_STATED_STEPS else None,
            # The whole episode, so that an export gives it back as it was.
            "metadata": {"agent_memory": episode},
        }

    def import_scores(self, tasks: dict[str, Any], episodes: list[dict[str, Any]]) -> dict[str, Any]:
        """Make runs of the scores that have no episode in the file.

        The newest scores of a task are those of its episodes; the others are older than every episode.
        """
        scored = Counter(
            str(episode.get("task_id", "")) for episode in episodes if read_score(episode.get("score")) is not None
        )
        times = [at for at in map(read_time, episodes) if at is not None]
        before = min(times, default=timezone.now()) - timedelta(seconds=1)
        outline: dict[str, Any] = {}
        for task_id, scores in tasks.items():
            if not isinstance(scores, list):
                outline[task_id] = scores
                continue
            # The last scores of the list belong to the episodes, which become runs themselves.
            older = scores[: max(0, len(scores) - scored[task_id])]
            copies: Counter[str] = Counter()  # equal scores are told apart by their number
            runs = []
            for index, score in enumerate(older):
                digest = hash_value(score)
                copies[digest] += 1
                run = self._make_run(
                    "scores",
                    f"score:{hash_value([task_id, score])[:24]}:{copies[digest]}",
                    task=task_id or "imported score",
                    task_id=task_id,
                    agent=self.agent,
                    score=read_score(score.get("score") if isinstance(score, dict) else score),
                    # A millisecond apart, so that they keep the order of the file.
                    created_at=before - timedelta(milliseconds=len(older) - index),
                    metadata={"agent_memory_score": score},
                )
                runs.append(run)
            outline[task_id] = [*runs, *scores[len(older) :]]
        return outline

    def import_card(self, raw: Any) -> Any:
        text = read_mistake(raw) if isinstance(raw, dict) else None
        if text is None:
            return raw
        count = raw.get("seen_count", 1)
        count = min(count, MAX_SEEN) if is_count(count) and count else 1
        card, created = MistakeCard.objects.select_for_update().get_or_create(
            project=self.project,
            identity_sha256=identify_mistake(text),
            defaults={"kind": MistakeCard.Kind.MISTAKE, "client": self.by.label},
        )
        note_words(card, text, trajectory=None, by=self.by)
        if created:
            self.made["cards"] += 1
            after_commit(settle_cards, [card.pk], new_ids=[card.pk])
        # The higher of the two: a file that has grown counts the same runs again.
        card.details |= {"imported_count": max(card.imported_count, count), "imported": raw}
        card.save(update_fields=["details"])
        recount(card)
        return {"card": str(card.pk)}

    def _make_run(self, kind: str, name: str, **fields: Any) -> dict[str, str]:
        # By a name made of the contents, so that a file that has grown adds only what is new.
        run, created = Trajectory.objects.get_or_create(
            project=self.project,
            external_id=f"memory-import:{name}",
            defaults={**fields, "outcome": _judge(fields["score"]), "client": self.by.label},
        )
        self.made[kind] += created
        return {"trajectory": str(run.pk)}


def _judge(score: float | None) -> str:
    return Trajectory.Outcome.UNKNOWN if score is None else outcome_of(score)
