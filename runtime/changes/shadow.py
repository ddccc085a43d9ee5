"""Shadow runs: the candidate works on tasks of recorded runs, with answers from their journals. Nothing leaves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from memory.runs.models import Trajectory
from reflection.llm.chat import ChatMessage
from runtime.changes.journal_host import JournalHost
from runtime.changes.subjects import subject_of
from runtime.changes.trials import Ask, Trial, hold_trial
from runtime.context.prompt import write_request
from runtime.models.agents import AgentRevision
from runtime.models.changes import Change, ComparisonVerdict, EvaluationRow, RowKind
from runtime.models.conversations import Message
from runtime.models.runs import Run, RunStatus
from runtime.models.tools import ToolKind

MOST_RUNS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Divergence:
    """One line of the table: how often a tool was called in the recorded runs and by the candidate.

    Of the same calls, `late` are those that were made after a call which acts and which they came before.
    """

    tool: str
    same: int = 0
    late: int = 0
    missing: int = 0
    new_reads: int = 0
    new_writes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Rehearsal:
    """How a rehearsal went, and what was answered and refused."""

    host: JournalHost
    trial: Trial


def find_runs(agent_id: UUID) -> QuerySet[Run]:
    """Return the recorded runs of an agent that went well, the newest first."""
    runs = Run.objects.filter(agent=agent_id, status=RunStatus.SUCCEEDED, trajectory__isnull=False)
    return (
        runs.exclude(trajectory__outcome=Trajectory.Outcome.FAILURE)
        .select_related("revision", "conversation", "project", "agent")
        .order_by("-created_at", "-id")
    )


def choose_runs(agent_id: UUID, *, most: int = MOST_RUNS) -> list[Run]:
    """Return recorded runs of an agent that went well, the newest of each task family in turn."""
    families: dict[str, list[Run]] = {}
    for run in find_runs(agent_id)[: most * 10]:
        families.setdefault(run.task_id, []).append(run)
    chosen: list[Run] = []
    while families and len(chosen) < most:
        for family in list(families):
            chosen.append(families[family].pop(0))
            if not families[family]:
                del families[family]
    return chosen[:most]


def hold_rehearsal(revision: AgentRevision, run: Run, ask: Ask, host: JournalHost, *, lessons: str = "") -> Rehearsal:
    """Let a revision of an agent work on the task of a recorded run, with other lessons besides."""
    subject = subject_of(revision, run, lessons=lessons)
    return Rehearsal(host=host, trial=hold_trial(subject, read_task(run), ask, host))


def read_task(run: Run) -> list[ChatMessage]:
    """Return what was said in a run's conversation until it began, with its task as the last message."""
    first = run.messages.filter(role=Message.Role.USER).order_by("seq").values_list("seq", flat=True).first() or 0
    said = (
        Message.objects.read_at(run.created_at).filter(conversation=run.conversation_id, seq__lte=first).order_by("seq")
    )
    return list(write_request(run, said, compaction=None).messages[1:])


def tabulate(rows: Sequence[EvaluationRow]) -> list[Divergence]:
    """Return the table of divergences of some shadow runs, by tool."""
    names = {"same": "same", "late": "same", "missing": "missing", "read": "new_reads", "write": "new_writes"}
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        for call in row.figures["calls"]:
            line = counts.setdefault(call["tool"], dict.fromkeys([*names.values(), "late"], 0))
            line[names[call["what"]]] += 1
            line["late"] += call["what"] == "late"
    return [Divergence(tool=tool, **line) for tool, line in sorted(counts.items())]


def describe(change: Change, run: Run, rehearsal: Rehearsal, *, attempt: int, by: str) -> EvaluationRow:
    """Return the row of a rehearsal, which is not stored yet."""
    host, trial = rehearsal.host, rehearsal.trial
    late = [each.id for each in host.late]
    made = [*host.served, *host.covered]
    calls = [_line(each.tool, each.arguments, "late" if each.id in late else "same") for each in made]
    calls += [_line(each.tool, each.arguments, "missing") for each in host.missing]
    calls += [
        _line(tool, arguments, "read" if kind == ToolKind.PURE else "write") for tool, arguments, kind in host.refused
    ]
    whats = [each["what"] for each in calls]
    is_same = trial.ended and set(whats) <= {"same"}
    return EvaluationRow(
        project_id=change.project_id,
        kind=RowKind.REHEARSAL,
        change=change,
        run=run,
        attempt=attempt,
        name=run.task_id,
        verdict=ComparisonVerdict.SAME if is_same else ComparisonVerdict.DIFFERS,
        figures={
            "ended": trial.ended,
            "same": len(made),
            "missing": len(host.missing),
            "new_reads": whats.count("read"),
            "new_writes": whats.count("write"),
            "steps_before": run.steps_taken,
            "steps_after": trial.steps,
            "tokens_before": run.tokens,
            "tokens_after": trial.tokens,
            "calls": calls,
        },
        made_by=by,
    )


def _line(tool: str, arguments: dict[str, Any], what: str) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments, "what": what}
