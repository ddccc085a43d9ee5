"""Evolve: propose from the runs of the mine set, judge candidates on the gate, measure the best on the hold-out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluationError
from evaluation.evolution.archive import Archive, ArchivedCandidate
from evaluation.evolution.gates import Gate, judge, score, work_on
from evaluation.evolution.suite import AS_IT_IS, EvolutionSuite, EvolutionTask, Sets, TaskOutcome, split
from evaluation.reports.statistics import paired_difference
from runtime.changes.macros import Macro, write_macro
from runtime.changes.proposals import ProposedChange
from runtime.changes.sequences import find_repeated

BROOD = 4  # candidates of a generation
PARENTS = 2
MOST_LOOKS = 60  # at the gate, before its set is burnt
Think = Callable[[Sequence[tuple[EvolutionTask, TaskOutcome]]], Sequence[ProposedChange]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Evolved:
    """An evolution that has ended. `measured` is the best candidate on the hold-out, see `compare`."""

    sets: Sets
    macros: tuple[Macro, ...]
    archive: Archive
    gate: Gate
    measured: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Attempt:
    """A parent, and what to add to it: tools, or what a model proposed."""

    parent: ArchivedCandidate
    macros: tuple[Macro, ...] = ()
    draft: ProposedChange | None = None


def evolve(
    suite: EvolutionSuite,
    *,
    generations: int,
    seed: int = 0,
    most_looks: int = MOST_LOOKS,
    think: Think | None = None,
) -> Evolved:
    """Evolve the agent of a suite. The same arguments have the same result, as far as its model is the same.

    Args:
        think: proposes from the tasks of the mine set and what came of them; tools are mined in any case.

    Raises:
        EvaluationError: there are too few tasks for three sets.
    """
    sets = split(suite.tasks(), seed=seed)
    if not (sets.mine and sets.gate and sets.holdout):
        raise EvaluationError("There are too few tasks for three sets. Let more of each family be worked on.")
    gate = Gate(suite=suite, tasks=sets.gate, most_looks=most_looks)
    outcomes = gate.look(AS_IT_IS, seed=_seed(seed, "gate", 0))
    first = ArchivedCandidate(
        number=0,
        generation=0,
        said="the agent as it was",
        look=gate.looks,
        scores=score(sets.gate, outcomes),
        outcomes=outcomes,
    )
    archive = Archive(first)
    mined = work_on(suite, sets.mine, AS_IT_IS, seed=_seed(seed, "mine", 0))
    macros = propose(mined)
    drafts = think(list(zip(sets.mine, mined, strict=True))) if think is not None else ()
    for generation in range(1, generations + 1):
        # What a model proposed is tried once, on the agent as it was.
        thought = [_Attempt(parent=first, draft=draft) for draft in drafts if generation == 1]
        for attempt in [*thought, *_breed(archive, macros)]:
            if not gate.is_burnt:
                archive.candidates.append(_try(gate, archive, attempt, generation=generation, seed=seed))
        kept = [candidate for candidate in archive.passed if candidate.generation == generation and candidate.macros]
        # Tools that help one by one need not help together, so the gate judges them again.
        if len(kept) > 1 and not gate.is_burnt:
            parent = archive.candidates[kept[0].parent or 0]
            siblings = [candidate for candidate in kept if candidate.parent == parent.number]
            together = tuple(dict.fromkeys(sibling.macros[-1] for sibling in siblings))
            if len(together) > 1:
                attempt = _Attempt(parent=parent, macros=together)
                child = _try(gate, archive, attempt, generation=generation, seed=seed)
                child.parents = tuple(candidate.number for candidate in siblings)
                archive.candidates.append(child)
    return Evolved(
        sets=sets,
        macros=macros,
        archive=archive,
        gate=gate,
        measured=measure(suite, sets.holdout, archive.best(), seed=seed),
    )


def propose(outcomes: Sequence[TaskOutcome]) -> tuple[Macro, ...]:
    """Return the tools that runs on the mine set suggest, those first that would have saved the most steps."""
    repeated = find_repeated(outcome.run for outcome in outcomes if outcome.solved)
    return tuple(macro for repeat in repeated if (macro := write_macro(repeat)) is not None)


def measure(
    suite: EvolutionSuite, tasks: Sequence[EvolutionTask], best: ArchivedCandidate, *, seed: int
) -> dict[str, Any]:
    """Compare a candidate with the agent as it was on tasks that nothing was chosen by."""
    # The hold-out is looked at once, at the end, so nothing was chosen by it.
    before = work_on(suite, tasks, AS_IT_IS, seed=_seed(seed, "holdout", 0))
    after = work_on(suite, tasks, best.proposal, seed=_seed(seed, "holdout", 1))
    return compare(before, after)


def compare(before: Sequence[TaskOutcome], after: Sequence[TaskOutcome]) -> dict[str, Any]:
    """Return two arms on the same tasks beside each other, with the interval of the difference per task."""
    solved = _differ([float(score.solved) for score in before], [float(score.solved) for score in after])
    return {
        "tasks": len(before),
        "solved": {arm: int(solved.pop(arm)) for arm in ("before", "after")},
        "steps": _differ([score.steps for score in before], [score.steps for score in after]),
        "tokens": _differ([score.tokens for score in before], [score.tokens for score in after]),
        "success": solved,
    }


def _differ(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    difference = paired_difference(after, before)
    sums = {"before": sum(before), "after": sum(after)}
    return sums | {"mean": difference.mean, "low": difference.low, "high": difference.high}


def _breed(archive: Archive, macros: Sequence[Macro]) -> list[_Attempt]:
    """Return what to try next: parents of the Pareto set, each with a tool that it has not been tried with."""
    pairs = []
    for parent in archive.pareto()[:PARENTS]:
        waiting = [
            macro
            for macro in macros
            if macro not in parent.macros and not archive.has(parent, macro) and _may_help(archive, macro)
        ]
        pairs += [(parent, macro) for macro in waiting]
    # A total order by name in the end, so that the same seed breeds the same candidates.
    pairs.sort(key=lambda pair: (pair[0].tokens, -pair[1].repeated.saved, pair[1].definition.name))
    return [_Attempt(parent=parent, macros=(macro,)) for parent, macro in pairs[:BROOD]]


def _may_help(archive: Archive, macro: Macro) -> bool:
    """Tell whether no gate that looks at the tool alone has stopped it."""
    stopped = {"form", "types", "examples", "replay"}
    return not any(
        candidate.stopped_by in stopped and candidate.macros[-1].definition.name == macro.definition.name
        for candidate in archive.candidates
        if candidate.macros
    )


def _try(gate: Gate, archive: Archive, attempt: _Attempt, *, generation: int, seed: int) -> ArchivedCandidate:
    """Judge a parent with one tool more, with those of several of its children, or with what a model proposed."""
    parent, number = attempt.parent, len(archive.candidates)
    child = ArchivedCandidate(
        number=number,
        generation=generation,
        macros=(*parent.macros, *attempt.macros),
        draft=attempt.draft or parent.draft,
        parent=parent.number,
        parents=(parent.number,),
    )
    for macro in attempt.macros:
        child.stopped_by, child.said = gate.check(macro)
        # These checks are cheap, and save a look at the gate.
        if child.stopped_by:
            return child
    child.outcomes = gate.look(child.proposal, seed=_seed(seed, "gate", number))
    child.look = gate.looks
    child.scores = score(gate.tasks, child.outcomes)
    child.stopped_by, child.said = judge(gate.tasks, parent.outcomes, child.outcomes)
    return child


def _seed(seed: int, what: str, number: int) -> str:
    return f"{seed}:{what}:{number}"
