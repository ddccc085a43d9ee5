"""Export a project as an agent's own memory file: what was imported, and what was added since."""

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Q

from memory.episodes.file_format import MEMBERS, VERSION
from memory.episodes.models import MemoryImport
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import AVOID_MARK, RULE_TAG, WORKS_MARK
from memory.mistakes.models import MistakeCard
from memory.mistakes.reports import MistakeText
from memory.projects.models import Project
from memory.runs.models import Trajectory

_MARKS = {"works": f"{WORKS_MARK} ", "avoid": f"{AVOID_MARK} "}
_CARDS_IN_USE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)
_WITHDRAWN = (Heuristic.Status.REJECTED, Heuristic.Status.RETIRED, Heuristic.Status.QUARANTINED)


def export_memory(project: Project) -> dict[str, Any]:
    """Return a project's memory in the form `import_memory` reads.

    If nothing changed since an import, the file is as it was imported. Erased runs, rules and cards that were rejected
    or retired since, and those that a quarantine order covers, are left out: agents read the file unreviewed. Newer
    runs, rules in service and cards are added at the end.
    """
    exporter = _Exporter(project)
    row = MemoryImport.objects.filter(project=project).order_by("-created_at", "-id").first()
    if row is not None:
        document = exporter.restore(row.outline)
    else:
        document = {"version": VERSION} | {name: empty() for name, empty in MEMBERS.items()}
    exporter.add_newer(document)
    return document


class _Exporter:
    """Finds the rows that an outline names, and notes which have been written."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._runs = {str(run.pk): run for run in Trajectory.objects.for_project(project).order_by("created_at", "id")}
        cards = MistakeCard.objects.for_project(project).with_text().annotate(runs=Count("evidence"))
        covered = HeuristicRevision.objects.of_mistakes().for_project(project).covered()
        self._cards = {str(card.pk): card for card in cards.exclude(revisions__in=covered)}
        covered_rules = HeuristicRevision.objects.of_lessons().for_project(project).covered()
        withdrawn = Heuristic.objects.filter(
            Q(status__in=_WITHDRAWN) | Q(pk__in=covered_rules.values("heuristic")), project=project
        )
        self._withdrawn = {str(pk) for pk in withdrawn.values_list("pk", flat=True)}
        self._written: set[str] = set()

    def restore(self, outline: dict[str, Any]) -> dict[str, Any]:
        """Replace the row ids of an outline by the contents of the rows."""
        parts: dict[str, Any] = {
            "global_rules": lambda rules: list(self._restore_rules(rules)),
            "task_rules": lambda tasks: {task_id: list(self._restore_rules(rules)) for task_id, rules in tasks.items()},
            "episode_log": lambda entries: list(self._restore_runs(entries, "agent_memory")),
            # What is no list was kept as it was in the file.
            "score_history": lambda tasks: {
                task_id: list(self._restore_runs(scores, "agent_memory_score")) if isinstance(scores, list) else scores
                for task_id, scores in tasks.items()
            },
            "mistake_cards": lambda cards: list(self._restore_cards(cards)),
        }
        return {name: parts[name](value) if name in parts else value for name, value in outline.items()}

    def add_newer(self, document: dict[str, Any]) -> None:
        """Add the runs, rules and cards that the document lacks."""
        rules = HeuristicRevision.objects.filter(project=self._project, served=True, tags__contains=[RULE_TAG])
        for rule in rules.order_by("id"):
            if str(rule.heuristic_id) in self._written:
                continue
            words = _MARKS.get(rule.polarity, "") + rule.guideline
            if rule.task_id:
                document.setdefault("task_rules", {}).setdefault(rule.task_id, []).append(words)
            else:
                document.setdefault("global_rules", []).append(words)
        for pk, run in self._runs.items():
            if pk in self._written:
                continue
            document.setdefault("episode_log", []).append(_write_episode(run))
            if run.score is not None:
                document.setdefault("score_history", {}).setdefault(run.task_id, []).append(run.score)
            for name, texts in (("mistakes", run.mistakes), ("successes", run.successes)):
                if texts:
                    document.setdefault(name, []).extend(texts)
        for pk, card in self._cards.items():
            if pk not in self._written and card.status in _CARDS_IN_USE:
                document.setdefault("mistake_cards", []).append(_write_card(card))

    def _restore_rules(self, entries: Iterable[Any]) -> Iterable[Any]:
        for entry in entries:
            pk = _read_row_id(entry, "heuristic", {"heuristic", "text"})
            if pk is None:
                yield entry
                continue
            self._written.add(pk)
            if pk not in self._withdrawn:
                yield entry["text"]

    def _restore_runs(self, entries: Iterable[Any], member: str) -> Iterable[Any]:
        for entry in entries:
            pk = _read_row_id(entry, "trajectory", {"trajectory"})
            if pk is None:
                yield entry
                continue
            self._written.add(pk)
            if pk in self._runs:
                yield self._runs[pk].metadata[member]

    def _restore_cards(self, entries: Iterable[Any]) -> Iterable[Any]:
        for entry in entries:
            pk = _read_row_id(entry, "card", {"card"})
            if pk is None:
                yield entry
                continue
            self._written.add(pk)
            card = self._cards.get(pk)
            if card is not None and card.status in _CARDS_IN_USE:
                runs: int = card.runs  # type: ignore[attr-defined]  # annotated above
                yield {**card.details["imported"], **({"seen_count": card.imported_count + runs} if runs else {})}


def _read_row_id(entry: Any, name: str, members: set[str]) -> str | None:
    """Return the id of the row an outline entry stands for; None for what was kept as it was in the file."""
    if not isinstance(entry, dict) or set(entry) != members or not isinstance(entry[name], str):
        return None
    return str(entry[name])


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
    newest = card.evidence.order_by("-created_at", "-id").first()
    return {
        **MistakeText.of(card.newest).words(),
        "evidence": newest.quote if newest else "",
        "seen_count": card.support,
        "first_seen": card.first_seen_at.isoformat() if card.first_seen_at else None,
        "last_seen": card.last_seen_at.isoformat() if card.last_seen_at else None,
    }
