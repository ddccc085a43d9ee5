"""The job folders of Harbor and Terminal-Bench: which files in them are logs, and how a trial ended.

A trial is a folder with `agent/trajectory.json`, the ATIF log, and `result.json`, which has the reward. What else the
agent wrote into its folder is the same work in another form.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from memory.limits import FILE_JSON
from memory.strict_json import InvalidJson, load_json
from memory.transcripts.log import Transcript, to_number

_LOG = ("agent", "trajectory.json")
_REPORTS = frozenset({"result.json", "config.json", "lock.json"})
_LEVELS_UP = 4  # from the log of a step to the result of its trial


def without_reports(files: Iterable[Path]) -> list[Path]:
    """Return the files of a folder that are logs. Of a trial, only its trajectories are."""
    files = sorted(files)
    trials = {file.parent.parent for file in files if file.parts[-2:] == _LOG}
    jobs = {trial.parent for trial in trials}
    kept = []
    for file in files:
        inside = next((folder for folder in file.parents if folder in trials), None)
        is_report = file.name in _REPORTS and file.parent in jobs
        is_other = inside is not None and not (file.parent.name == "agent" and file.name.startswith("trajectory"))
        if not is_report and not is_other:
            kept.append(file)
    return kept


def add_result(file: Path, runs: Iterable[Transcript]) -> None:
    """Take the reward of a trial as the score of the run in its log."""
    result = _find_result(file)
    verified, agent = result.get("verifier_result"), result.get("agent_result")
    rewards = verified.get("rewards", verified) if isinstance(verified, Mapping) else {}
    values = rewards.values() if isinstance(rewards, Mapping) else ()
    reward = rewards.get("reward", next(iter(values), None)) if isinstance(rewards, Mapping) else None
    score = to_number(reward)
    for run in runs:
        if run.parent_id:
            continue
        run.task_id = run.task_id or next(
            (v for n in ("source", "task_name") if isinstance(v := result.get(n), str)), ""
        )
        for name in ("task_name", "trial_name", "exception_info"):
            if result.get(name):
                run.metadata[name] = result[name]
        if isinstance(agent, Mapping) and run.cost_usd is None:
            run.cost_usd = to_number(agent.get("cost_usd"))
        if score is not None and 0 <= score <= 1:
            run.score, run.outcome_source = score, "environment"


def _find_result(file: Path) -> Mapping[str, Any]:
    """Return the result of the trial that a log belongs to, {} if there is none."""
    for folder in [*file.absolute().parents][:_LEVELS_UP]:
        try:
            result = load_json((folder / "result.json").read_bytes(), limits=FILE_JSON)
        except (OSError, InvalidJson):
            continue
        if isinstance(result, Mapping) and "verifier_result" in result:
            return result
    return {}
