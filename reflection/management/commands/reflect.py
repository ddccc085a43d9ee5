"""Reflect on the runs of a file and show the results."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from memory.errors import MemoryAppError
from memory.heuristics.models import Evidence
from memory.heuristics.text import Citation
from memory.intake.files import FORMATS, FileEntry, as_episode, read_entries
from memory.intake.recording import record_trajectory
from memory.management.options import add_project_argument, get_project
from memory.projects.actors import Actor
from memory.projects.models import Project
from reflection.errors import ReflectionError
from reflection.jobs.workers import owner_name
from reflection.reflectors.base import ReflectionResult, Reflector
from reflection.reflectors.checks import is_rejected, verify
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.reflections import get_reflector, run_reflection
from reflection.reflectors.requests import enqueue_reflection

BY = Actor(label="command:reflect")


class Command(BaseCommand):
    help = (
        "Reflect on the runs of a file with the configured reflector (ERL_REFLECTOR) and print the lessons it "
        "proposes: when, do, avoid, because, and the steps that show it. The file may be anything "
        "import_trajectories reads. Nothing is stored unless --store is given; without it the offline rules "
        "need no database at all."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the runs: JSON Lines, JSON or a chat log")
        parser.add_argument(
            "--store", action="store_true", help="record the runs and put the lessons into the review queue"
        )
        add_project_argument(parser)
        parser.add_argument("--format", choices=FORMATS, default="auto", dest="file_format", help="default: auto")
        parser.add_argument("--limit", type=int, metavar="N", help="read only the first N runs")
        parser.add_argument("--json", action="store_true", help="print JSON Lines, one run per line, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        if not path.is_file():
            raise CommandError(f"There is no file {path}.")
        try:
            reflector = get_reflector()
        except ReflectionError as error:
            raise CommandError(str(error)) from error
        project = get_project(options["project"]) if options["store"] else None
        if not options["json"]:
            self.stdout.write(f"Reflector: {reflector.name}, version {reflector.version}.\n\n")
        totals = {"runs": 0, "proposals": 0, "silent": 0, "failed": 0}
        different: set[tuple[str, str]] = set()
        try:
            for entry in islice(read_entries(path, file_format=options["file_format"]), options["limit"]):
                report = self._report(entry, reflector, project)
                self._print(report, as_json=options["json"])
                totals["runs"] += 1
                totals["proposals"] += len(report["lessons"])
                totals["failed"] += bool(report["error"])
                totals["silent"] += not report["lessons"] and not report["error"]
                different |= {(lesson["trigger"], lesson["guideline"]) for lesson in report["lessons"]}
        except MemoryAppError as error:
            raise CommandError(str(error)) from error
        if not options["json"]:
            self.stdout.write(
                f"Proposals: {totals['proposals']} ({len(different)} different) from {_runs(totals['runs'])}. "
                f"{_runs(totals['silent'])} gave none, {totals['failed']} could not be read or reflected on."
            )
        if totals["failed"]:
            raise SystemExit(1)

    def _report(self, entry: FileEntry, reflector: Reflector, project: Project | None) -> dict[str, Any]:
        """Reflect on one run and return what to print of it."""
        report: dict[str, Any] = {"place": entry.place, "lessons": [], "skip_reason": "", "error": entry.error}
        if entry.data is None:
            return report
        report["run"] = entry.data.get("external_id", "")
        report["outcome"], report["score"] = entry.data.get("outcome", "unknown"), entry.data.get("score")
        try:
            return report | (_try(entry.data, reflector) if project is None else _store(entry.data, project))
        except (MemoryAppError, ReflectionError) as error:
            return report | {"error": str(error)}

    def _print(self, report: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(report, ensure_ascii=False))
            return
        score = "" if report.get("score") is None else f", score {report['score']:.2g}"
        title = f"{report['run']} ({report['outcome']}{score})" if report.get("run") else report["place"]
        self.stdout.write(f"── {title}")
        if report["error"]:
            self.stdout.write(f"   failed: {report['error']}\n\n")
        elif not report["lessons"]:
            self.stdout.write(f"   nothing: {report['skip_reason']}\n\n")
        for lesson in report["lessons"]:
            self.stdout.write("\n".join(_lines(lesson)) + "\n\n")


def _try(data: dict[str, Any], reflector: Reflector) -> dict[str, Any]:
    """Reflect without touching a table; what the checks would refuse is left out, as it would be in the queue."""
    episode = as_episode(data)
    result: ReflectionResult = reflector.reflect(episode, near=())
    lessons, skip_reason = [], result.skip_reason
    for lesson in result.lessons:
        findings = verify(lesson, episode)
        if is_rejected(findings):
            skip_reason = "The checks refused the lesson: " + " ".join(finding.message for finding in findings)
            continue
        lessons.append(
            lesson.text.as_words()
            | {
                "confidence": lesson.confidence,
                "evidence": [asdict(citation) for citation in lesson.citations],
                "notes": [finding.message for finding in findings],
            }
        )
    return {"lessons": lessons, "skip_reason": skip_reason}


def _store(data: dict[str, Any], project: Project) -> dict[str, Any]:
    """Record a run and reflect on it now, unless it was reflected on before."""
    trajectory = record_trajectory(project, data=data, by=BY, reflect=False).trajectory
    reflection = Reflection.objects.filter(trajectory=trajectory).order_by("-created_at").first()
    if reflection is None:
        reflection = enqueue_reflection(trajectory, by=BY)
    if reflection.status in Reflection.LIVE:
        run_reflection(reflection.pk, owner=owner_name())
        reflection.refresh_from_db()
    proposals = Proposal.objects.filter(reflection=reflection).select_related("heuristic__current_revision")
    lessons = [_stored(proposal, trajectory_id=trajectory.pk) for proposal in proposals]
    error = "" if reflection.status == Reflection.Status.DONE else f"{reflection.status}: {reflection.last_error}"
    return {"lessons": lessons, "skip_reason": reflection.skip_reason, "error": error}


def _stored(proposal: Proposal, *, trajectory_id: UUID) -> dict[str, Any]:
    heuristic = proposal.heuristic
    revision = heuristic.current_revision
    if revision is None:
        raise ReflectionError(f"Lesson {heuristic.pk} has no wording.")
    evidence = Evidence.objects.filter(heuristic=heuristic, trajectory_id=trajectory_id)
    effects = {
        Proposal.Effect.NEW: "new in the review queue",
        Proposal.Effect.SUPPORT: f"more evidence for an existing lesson, which {heuristic.support} runs support now",
        Proposal.Effect.MERGE: "in the review queue, close to an existing lesson",
    }
    return revision.as_text().as_words() | {
        "heuristic_id": str(heuristic.pk),
        "effect": proposal.effect,
        "confidence": heuristic.confidence,
        "evidence": [
            asdict(Citation(first_step=row.first_step, last_step=row.last_step, quote=row.quote)) for row in evidence
        ],
        "notes": [effects[Proposal.Effect(proposal.effect)]],
    }


def _runs(number: int) -> str:
    return f"{number} run" if number == 1 else f"{number} runs"


def _lines(lesson: dict[str, Any]) -> Iterator[str]:
    parts = (
        ("when", lesson["trigger"].removeprefix("When ")),
        ("do", lesson["guideline"]),
        ("avoid", lesson["avoid"]),
        ("not", lesson["not_when"]),
        ("because", lesson["rationale"]),
        *(("shown", _citation(citation)) for citation in lesson["evidence"]),
        ("", f"{lesson['polarity']}, confidence {lesson['confidence'] or 0:.2f}"),
        *(("note", note) for note in lesson["notes"]),
    )
    for label, text in parts:
        if text:
            yield f"   {label:<8} {text}"


def _citation(citation: dict[str, Any]) -> str:
    first, last = citation["first_step"], citation["last_step"]
    where = "the run" if first is None else f"step {first}" if first == last else f"steps {first} to {last}"
    quote = " ".join(citation["quote"].split())
    return f'{where}: "{quote}"' if quote else where
