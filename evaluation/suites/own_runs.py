"""Recorded runs of one's own, for the suite `replay`: a file of runs, each with the arm it belongs to."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.errors import EvaluationError
from evaluation.reports.controls import check_controls
from evaluation.reports.figures import compare_arm, estimate_json, power_note, rounded
from evaluation.reports.metrics import pass_at_k, pass_hat_k
from evaluation.reports.statistics import bootstrap_mean
from evaluation.suites.base import About, Options, UnitResult
from memory.errors import InvalidInput, InvalidSteps
from memory.intake.serializers import TrajectoryInput
from memory.runs.models import Trajectory
from memory.runs.step_formats import read_steps
from memory.runs.tools import read_tools
from memory.strict_json import InvalidJson, parse_json

NONE = "none"  # the arm without lessons
MAX_ARM_CHARS = 60
_ELSEWHERE = ("retrieval_id", "parent_id")  # they name rows of another database
ABOUT = About(
    name="replay",
    title="Your recorded runs: did they succeed more often with lessons?",
    data="The runs in the file of --data",
    licence="your own",
    splits="None: this suite learns nothing that is tested.",
    seeds="The seed selects the bootstrap samples of the intervals.",
    proves=(
        "This counts how the recorded runs ended, task by task. The difference between two arms is due to lessons only "
        "if nothing else differed between them. No agent is run."
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRun:
    """A recorded run: its arm, and the run as `record_trajectory` takes it."""

    arm: str
    data: dict[str, Any]

    @property
    def task(self) -> str:
        """Names the task in the report, which holds no text of runs."""
        # A hash tells tasks apart without telling what they say.
        return hashlib.sha256(self.data["task"].strip().encode()).hexdigest()[:12]


def read_own_runs(path: Path) -> list[OwnRun]:
    """Read a file of runs, one JSON object a line: a run as POST /trajectories takes it, and `arm`.

    Raises:
        EvaluationError: it cannot be read, a line is wrong, or there are several arms and none is called `none`.
    """
    runs = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise EvaluationError(f"--data {path} cannot be read: {error.strerror}.") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            runs.append(_read_run(parse_json(line)))
        except (InvalidJson, InvalidInput, InvalidSteps) as error:
            raise EvaluationError(f"--data {path}, line {number}: {error}") from error
    arms = {run.arm for run in runs}
    if not runs:
        raise EvaluationError(f"--data {path} has no runs.")
    if len(arms) > 1 and NONE not in arms:
        raise EvaluationError(
            f"--data {path} has the arms {', '.join(sorted(arms))}. Call the one without lessons {NONE}."
        )
    return runs


def _read_run(line: Any) -> OwnRun:
    arm = line.get("arm") if isinstance(line, Mapping) else None
    if not isinstance(arm, str) or not 0 < len(arm.strip()) <= MAX_ARM_CHARS:
        raise InvalidInput({"/arm": [f"Name the arm in 1 to {MAX_ARM_CHARS} characters, {NONE} without lessons."]})
    # Ids of another database would be refused, or point to other rows here.
    sent = {name: value for name, value in line.items() if name not in ("arm", *_ELSEWHERE)}
    data = TrajectoryInput.from_body(sent).run()
    read_steps(data.get("steps", []))
    read_tools(data.get("tools"))
    return OwnRun(arm=arm.strip(), data=data)


def count_tries(runs: list[OwnRun]) -> UnitResult:
    """Return the successes of each task in each arm, in the order of the file. Runs without an outcome do not count."""
    tries: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    left_out = 0
    for run in runs:
        outcome = run.data.get("outcome", "")
        if outcome not in (Trajectory.Outcome.SUCCESS, Trajectory.Outcome.FAILURE):
            left_out += 1
            continue
        tries[run.arm][run.task].append(outcome == Trajectory.Outcome.SUCCESS)
    return {"tries": {arm: dict(by_task) for arm, by_task in tries.items()}, "without_outcome": left_out}


def summarise_own(unit: UnitResult, options: Options) -> dict[str, Any]:
    """Compare the arms on the tasks that all of them tried. The tries of a task are averaged first."""
    tries: dict[str, dict[str, list[bool]]] = unit["tries"]
    # The arm without lessons first, as the others are measured against it.
    arms = sorted(tries, key=lambda arm: (arm != NONE, arm))
    seen = Counter(task for by_task in tries.values() for task in by_task)
    # Only tasks of all arms: a task that one arm never tried would favour the other.
    tasks = sorted(task for task, count in seen.items() if count == len(arms))
    success = {arm: [float(np.mean(tries[arm][task])) for task in tasks] for arm in arms}
    control = success.get(NONE)
    rows, figures = [], []
    for arm in arms if tasks else []:
        about = "without lessons" if arm == NONE else "as recorded"
        row = compare_arm(arm, about=about, treated=success[arm], control=control or success[arm], seed=options.seed)
        rows.append(row if control else row | {"uplift": {"n": 0}})
        counts = [(len(tries[arm][task]), sum(tries[arm][task])) for task in tasks]
        most = min(n for n, _ in counts)
        for k in range(1, most + 1) if most > 1 else ():
            for label, formula in ((f"pass^{k}", pass_hat_k), (f"pass@{k}", pass_at_k)):
                estimate = bootstrap_mean([formula(n, c, k) for n, c in counts], seed=options.seed, bounds=(0, 1))
                figures.append({"arm": arm, "name": label, **estimate_json(estimate)})
    notes = []
    if unit["without_outcome"]:
        notes.append(f"Runs without an outcome do not count: {unit['without_outcome']}.")
    if len(seen) > len(tasks):
        notes.append(f"Tasks that were not tried in every arm do not count: {len(seen) - len(tasks)}.")
    return {
        **ABOUT.as_json(),
        "n": len(tasks),
        "main": arms[-1] if len(arms) > 1 else "",
        "arms": rows,
        "figures": figures,
        "checks": check_controls(success, arms[-1], seed=options.seed) if control else [],
        "curve": [],
        "notes": notes,
        "power": power_note(len(tasks)),
        "tasks": tasks,
        "per_task": {arm: [rounded(value) for value in values] for arm, values in success.items()},
    }
