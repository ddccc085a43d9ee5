"""Write a project as an agent's own memory file: what was imported, and what came since."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Count

from memory.episodes.models import MemoryImport
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.rules import AVOID_MARK, WORKS_MARK
from memory.heuristics.text import RULE_TAG
from memory.mistakes.models import MistakeCard
from memory.projects.models import Project
from memory.runs.models import Trajectory

VERSION = 1
_MARKS = {"works": WORKS_MARK, "avoid": AVOID_MARK}
_CARD_WORDS = ("mistake_type", "task_id", "worker_id", "bad_decision", "correct_decision", "lesson")


def export_memory(project: Project) -> dict[str, Any]:
    """Return a project's memory in the form `import_memory` reads.

    Where nothing came since an import the file is as it was imported. Runs that were erased and rules and cards that
    were rejected or retired since are left out; runs, rules in service and cards that came since are added at the end.
    """
    row = MemoryImport.objects.filter(project=project).order_by("-created_at", "-id").first()
    writer = _Writer(project)
    document = writer.fill(row.outline) if row else {"version": VERSION}
    writer.add_newer(document, complete=row is None)
    return document


class _Writer:
    """Looks up what an outline names and remembers what it has written."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._runs = {str(run.pk): run for run in Trajectory.objects.for_project(project).order_by("created_at", "id")}
        self._cards = {
            str(card.pk): card
            for card in MistakeCard.objects.for_project(project).with_text().annotate(runs=Count("sightings"))
        }
        dropped = (Heuristic.Status.REJECTED, Heuristic.Status.RETIRED, Heuristic.Status.QUARANTINED)
        self._dropped = {
            str(pk) for pk in Heuristic.objects.filter(project=project, status__in=dropped).values_list("pk", flat=True)
        }
        self._written: set[str] = set()

    def fill(self, outline: dict[str, Any]) -> dict[str, Any]:
        """Put the rows' contents back in the places of their ids."""
        parts: dict[str, Any] = {
            "global_rules": lambda rules: list(self._rules(rules)),
            "task_rules": lambda tasks: {task_id: list(self._rules(rules)) for task_id, rules in tasks.items()},
            "episode_log": lambda episodes: list(self._episodes(episodes, "agent_memory")),
            "score_history": lambda tasks: {
                task_id: list(self._episodes(scores, "agent_memory_score")) if isinstance(scores, list) else scores
                for task_id, scores in tasks.items()
            },
            "mistake_cards": lambda cards: list(self._imported_cards(cards)),
        }
        return {name: parts[name](value) if name in parts else value for name, value in outline.items()}

    def add_newer(self, document: dict[str, Any], *, complete: bool) -> None:
        """Add what is not in the document; `complete` writes the members it lacks even where they are empty."""
        runs = [run for pk, run in self._runs.items() if pk not in self._written]
        cards = [
            card
            for pk, card in self._cards.items()
            if pk not in self._written and card.merged_into_id is None and card.status in ("proposed", "approved")
        ]
        rules = HeuristicRevision.objects.filter(project=self._project, served=True, tags__contains=[RULE_TAG])
        newer = [rule for rule in rules.order_by("id") if str(rule.heuristic_id) not in self._written]
        for name, empty in (("global_rules", []), ("task_rules", {}), ("episode_log", []), ("score_history", {})):
            if complete:
                document.setdefault(name, type(empty)())
        for name in ("mistakes", "mistake_cards", "successes"):
            if complete:
                document.setdefault(name, [])
        for rule in newer:
            words = f"{_MARKS[rule.polarity]} {rule.guideline}" if rule.polarity in _MARKS else rule.guideline
            if rule.task_id:
                document.setdefault("task_rules", {}).setdefault(rule.task_id, []).append(words)
            else:
                document.setdefault("global_rules", []).append(words)
        for run in runs:
            document.setdefault("episode_log", []).append(_write_episode(run))
            if run.score is not None:
                document.setdefault("score_history", {}).setdefault(run.task_id, []).append(run.score)
            for name, texts in (("mistakes", run.mistakes), ("successes", run.successes)):
                if texts:
                    document.setdefault(name, []).extend(texts)
        for card in cards:
            document.setdefault("mistake_cards", []).append(_write_card(card))

    def _rules(self, rules: Iterable[Any]) -> Iterable[Any]:
        for rule in rules:
            if not isinstance(rule, dict) or "heuristic" not in rule:
                yield rule
                continue
            self._written.add(rule["heuristic"])
            if rule["heuristic"] not in self._dropped:
                yield rule["text"]

    def _episodes(self, places: Iterable[Any], member: str) -> Iterable[Any]:
        for place in places:
            if not isinstance(place, dict) or set(place) != {"trajectory"}:
                yield place
                continue
            self._written.add(place["trajectory"])
            run = self._runs.get(place["trajectory"])
            if run is not None:
                yield run.metadata[member]

    def _imported_cards(self, cards: Iterable[Any]) -> Iterable[Any]:
        for place in cards:
            card = self._cards.get(place.get("card", "")) if isinstance(place, dict) else None
            if card is None:
                if not (isinstance(place, dict) and set(place) == {"card"}):
                    yield place
                continue
            self._written.add(place["card"])
            if card.status in ("proposed", "approved"):
                runs: int = card.runs  # type: ignore[attr-defined]  # annotated above
                seen = {"seen_count": card.imported_count + runs} if runs else {}
                yield {**card.imported, **seen}


def _write_episode(run: Trajectory) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "task": run.task,
        "task_id": run.task_id,
        "agent": run.agent,
        "score": run.score,
        "steps": run.number_of_steps,
        "summary": run.summary,
        "mistakes": run.mistakes,
        "successes": run.successes,
        "timestamp": run.created_at.isoformat(),
    }


def _write_card(card: MistakeCard) -> dict[str, Any]:
    assert card.current_revision is not None  # every card is made with one
    newest = card.sightings.first()
    return {
        **{name: getattr(card.current_revision, name) for name in _CARD_WORDS},
        "evidence": newest.evidence if newest else "",
        "seen_count": card.seen_count,
        "first_seen": card.first_seen_at.isoformat() if card.first_seen_at else None,
        "last_seen": card.last_seen_at.isoformat() if card.last_seen_at else None,
    }
