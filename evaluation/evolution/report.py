"""An evolution in words and figures."""

from collections.abc import Iterator
from typing import Any

from evaluation.evolution.archive import ArchivedCandidate
from evaluation.evolution.generations import Evolved
from evaluation.evolution.suite import AS_IT_IS
from runtime.changes.proposals import ProposedChange

PLAINLY = (
    "The agent's model is a script that knows the right calls and slips now and then. So this shows that the machinery "
    "finds, checks, measures and stops changes. It says nothing about how clever a model's proposals are."
)


def write_report(evolved: Evolved) -> Iterator[str]:
    """Yield the lines about the generations and the hold-out."""
    sets, gate = evolved.sets, evolved.gate
    yield f"tasks: mine {len(sets.mine)}, gate {len(sets.gate)}, hold-out {len(sets.holdout)}, no task in two of them"
    yield f"mined: {len(evolved.macros)} tools from repeated calls of solved runs of the mine set"
    for candidate in evolved.archive.candidates:
        parent = f" on {candidate.parent}" if candidate.parent is not None else ""
        what = f"+ {', '.join(_added(evolved, candidate))}" if candidate.number else "the agent as it was"
        figures = (
            f"  {candidate.steps:,.0f} steps, {candidate.tokens:,.0f} tokens, {candidate.solved} solved"
            if candidate.scores
            else ""
        )
        verdict = f"stopped by {candidate.stopped_by}: {candidate.said}" if candidate.stopped_by else "kept"
        yield f"generation {candidate.generation}, candidate {candidate.number}{parent}: {what}{figures}  {verdict}"
    front = ", ".join(str(candidate.number) for candidate in evolved.archive.pareto())
    yield f"archive: {len(evolved.archive.candidates)} candidates, Pareto set over families: {front}"
    yield f"gate: looked at {gate.looks} times of {gate.most_looks}"
    best = evolved.archive.best()
    new = ", ".join(_list_parts(best.proposal))
    yield f"best on the gate: candidate {best.number} with {new or 'nothing new'}"
    yield from write_measured(evolved.measured, "hold-out")


def write_measured(measured: dict[str, Any], name: str) -> Iterator[str]:
    """Yield the lines about one comparison."""
    solved, steps, tokens = measured["solved"], measured["steps"], measured["tokens"]
    each_solved = {
        what: [sums[arm] / max(solved[arm], 1) for arm in ("before", "after")]
        for what, sums in (("steps", steps), ("tokens", tokens))
    }
    yield f"{name}: solved {solved['before']} → {solved['after']} of {measured['tasks']}"
    before, after = each_solved["steps"]
    yield f"{name}: steps per solved task {before:.2f} → {after:.2f}, per task {_interval(steps, 2)}"
    before, after = each_solved["tokens"]
    yield f"{name}: tokens per solved task {before:,.0f} → {after:,.0f}, per task {_interval(tokens, 0)}"


def _added(evolved: Evolved, candidate: ArchivedCandidate) -> list[str]:
    had = evolved.archive.candidates[candidate.parent].proposal if candidate.parent is not None else AS_IT_IS
    return [part for part in _list_parts(candidate.proposal) if part not in _list_parts(had)]


def _list_parts(proposal: ProposedChange) -> list[str]:
    """Return the names of tools, and of what a model proposed in place of a text or setting."""
    texts = [name for name in proposal.content() if name != "tools"]
    return [*texts, *(tool.name for tool in proposal.tools)]


def _interval(estimate: dict[str, float], digits: int) -> str:
    return f"{estimate['mean']:+,.{digits}f} [{estimate['low']:+,.{digits}f}, {estimate['high']:+,.{digits}f}]"
