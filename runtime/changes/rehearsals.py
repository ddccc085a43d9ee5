"""Rehearsals: an agent works on tasks of recorded runs, with answers from their journals. Nothing leaves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from memory.runs.models import Trajectory
from reflection.llm.chat import ChatTool, PromptMessage
from reflection.llm.registry import provider_of
from runtime.changes.journal_host import JournalHost, Recorded, find_kinds, read_journal
from runtime.changes.proposals import ProposedChange, foresee
from runtime.changes.trials import Ask, Subject, Trial, for_model, hold_trial
from runtime.context.prompt import write_request
from runtime.definitions.storage import as_definition, find_schemas
from runtime.definitions.values import ToolDefinition
from runtime.limits import Limits, ModelSettings
from runtime.models.agents import Agent, AgentRevision
from runtime.models.changes import Change, ComparisonVerdict, EvaluationRow, RowKind
from runtime.models.conversations import Message
from runtime.models.runs import Run, RunStatus
from runtime.models.tools import ToolKind, ToolRevision, ToolRuntime
from runtime.tools.catalogue import core_tools

MOST_RUNS = 10
REHEARSED_STEPS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class Rehearsal:
    """How a rehearsal went, and what was answered and refused."""

    host: JournalHost
    trial: Trial

    @property
    def solved(self) -> bool:
        """Whether it came to its end, called any tool that the recorded run called, and changed all that it changed.

        To call none and to say that all is well is not to work, even where no recorded call changed anything.
        """
        host = self.host
        has_called = bool(host.served or not host.recorded)
        return self.trial.ended and has_called and all(call.kind == ToolKind.PURE for call in host.missing)

    @property
    def steps(self) -> int:
        return self.trial.steps

    @property
    def tokens(self) -> int:
        return self.trial.tokens


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
    # More are read than are chosen, so that one busy family does not push out the others.
    for run in find_runs(agent_id)[: most * 10]:
        families.setdefault(run.task_id, []).append(run)
    chosen: list[Run] = []
    while families and len(chosen) < most:
        for family in list(families):
            chosen.append(families[family].pop(0))
            if not families[family]:
                del families[family]
    return chosen[:most]


def rehearse(subject: Subject, run: Run, ask: Ask, *, recorded: list[Recorded] | None = None) -> Rehearsal:
    """Let an agent work on the task of a recorded run.

    Args:
        recorded: what answers its calls in place of the journal of the run.
    """
    host = JournalHost(recorded=read_journal(run) if recorded is None else recorded, kinds=find_kinds(run))
    return Rehearsal(host=host, trial=hold_trial(subject, read_task(run), ask, host))


def read_task(run: Run) -> list[PromptMessage]:
    """Return what was said in a run's conversation until it began, with its task as the last message."""
    first = run.messages.filter(role=Message.Role.USER).order_by("seq").values_list("seq", flat=True).first() or 0
    messages = (
        # As the conversation stood then: later rewinds do not count.
        Message.objects.read_at(run.created_at).filter(conversation=run.conversation_id, seq__lte=first).order_by("seq")
    )
    # Without the head, which the subject brings.
    return list(write_request(run, messages, compaction=None).messages[1:])


def subject_of(revision: AgentRevision, run: Run, *, lessons: str = "") -> Subject:
    """Return a revision that works on the task of a recorded run, with the memory and lessons which that run had.

    Args:
        lessons: a block with others, which it has besides.
    """
    # In the head of a run, memory and lessons follow the instructions of its revision.
    head = revision.system + run.head.removeprefix(run.revision.system)
    tools = tools_of_revision(revision)
    sources = {
        definition.name: definition
        for _, definition in tools
        if definition is not None and definition.runtime == ToolRuntime.MONTY
    }
    uses = {name for definition in sources.values() for name in definition.uses}
    return Subject(
        head="\n\n".join(part for part in (head, lessons) if part),
        tools=tuple(tool for tool, _ in tools),
        sources=sources,
        schemas=find_schemas(run.project, uses),
        limits=Limits(
            max_steps=min(run.max_steps, REHEARSED_STEPS),
            max_tokens=run.max_tokens,
            max_cost_usd=run.max_cost_usd,
            max_seconds=run.max_seconds,
        ),
        provider=provider_of(revision.model),
        **settings_of(revision),
    )


def proposed_subject(agent: Agent, proposal: ProposedChange, run: Run) -> Subject:
    """Return what an agent would be by a proposal, on the task of a recorded run."""
    assert agent.current is not None  # every agent has one
    target, subject = foresee(agent, proposal), subject_of(agent.current, run)
    uses = {name for tool in proposal.tools for name in tool.uses}
    subject = subject.with_tools(proposal.tools, find_schemas(run.project, uses))
    return replace(
        subject,
        head=target.system + subject.head.removeprefix(agent.current.system),
        rules=target.rules,
        max_output_tokens=target.output_tokens,
    )


def settings_of(revision: AgentRevision) -> dict[str, Any]:
    """Return what a revision says about how its model is asked, as members of a `Subject`."""
    return {
        "rules": tuple(revision.rules),
        "max_output_tokens": revision.max_output_tokens,
        "temperature": revision.temperature,
        "model_settings": ModelSettings.model_validate(revision.model_settings),
        "window_tokens": revision.window_tokens,
    }


def tools_of_revision(revision: AgentRevision) -> list[tuple[ChatTool, ToolDefinition | None]]:
    """Return the tools of a revision in their order, in force or proposed, with the definitions of the project's."""
    pinned = {row["revision"] for row in revision.tools if "revision" in row}
    revisions = {str(row.pk): row for row in ToolRevision.objects.filter(pk__in=pinned).select_related("tool")}
    tools: list[tuple[ChatTool, ToolDefinition | None]] = []
    for row in revision.tools:
        if "revision" in row and row["revision"] in revisions:
            definition = as_definition(revisions[row["revision"]])
            tools.append((for_model(definition), definition))
        elif row["name"] in core_tools():
            tools.append((core_tools()[row["name"]].for_model, None))
    return tools


def tabulate(rows: Sequence[EvaluationRow]) -> list[Divergence]:
    """Return the table of divergences of some rehearsals, by tool."""
    names = {"same": "same", "late": "same", "missing": "missing", "read": "new_reads", "write": "new_writes"}
    counts: dict[str, dict[str, int]] = {}
    for row in rows:
        for call in row.figures["calls"]:
            line = counts.setdefault(call["tool"], dict.fromkeys([*names.values(), "late"], 0))
            line[names[call["what"]]] += 1
            # A late call is one of the same calls, and is counted as both.
            line["late"] += call["what"] == "late"
    return [Divergence(tool=tool, **line) for tool, line in sorted(counts.items())]


def describe(change: Change, run: Run, rehearsal: Rehearsal, *, attempt: int, by: str) -> EvaluationRow:
    """Return the row of a rehearsal, which is not stored yet."""
    host, trial = rehearsal.host, rehearsal.trial
    late = [call.id for call in host.late]
    made = [*host.served, *host.covered]
    calls = [_line(call.tool, call.arguments, "late" if call.id in late else "same") for call in made]
    calls += [_line(call.tool, call.arguments, "missing") for call in host.missing]
    calls += [
        _line(tool, arguments, "read" if kind == ToolKind.PURE else "write") for tool, arguments, kind in host.refused
    ]
    whats = [call["what"] for call in calls]
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
