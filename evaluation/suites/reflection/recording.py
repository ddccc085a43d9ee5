"""The recorded runs, the answers of a strong model about them, and what a reader judged.

An answer is found by its run: the prompts change from version to version.
"""

import json
import lzma
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "data" / "reflections"
RECORDED, LATER, UNTOLD, LIVE = "recorded", "recorded-1.1", "untold", "live"
THEN = "0.2.0"  # the version whose prompts the arms recorded and untold answer
_CALLS = {RECORDED: "calls.jsonl", UNTOLD: "calls.jsonl", LATER: "calls-1.1.jsonl", LIVE: "calls-1.1.jsonl"}
_VERDICTS = {RECORDED: "verdicts.json", UNTOLD: "verdicts.json", LATER: "verdicts-1.1.json"}


@cache
def read_runs() -> dict[str, dict[str, Any]]:
    """Return the logs of the runs by their names, as their programs wrote them."""
    lines = lzma.decompress((DATA / "runs.jsonl.xz").read_bytes()).decode("utf-8").splitlines()
    return {row["id"]: row["log"] for row in map(json.loads, lines)}


@cache
def read_briefing() -> dict[str, Any]:
    """Return what the agents of the airline were told, and their tools: their logs have neither."""
    briefing: dict[str, Any] = json.loads((DATA / "airline.json").read_text(encoding="utf-8"))
    return briefing


@cache
def read_openings() -> dict[str, str]:
    """Return what the customer said first in each run of the airline: the logs begin with the agent's answer."""
    openings: dict[str, str] = json.loads((DATA / "openings.json").read_text(encoding="utf-8"))
    return openings


@cache
def read_answers(arm: str = RECORDED) -> dict[str, dict[str, Any]]:
    """Return the recorded calls by run and kind, in the order of the recording."""
    answers: dict[str, dict[str, Any]] = defaultdict(dict)
    for line in (DATA / _CALLS[arm]).read_text(encoding="utf-8").splitlines():
        call = json.loads(line)
        answers[call["run"]][call["kind"]] = call
    return dict(answers)


@cache
def read_verdicts(arm: str = RECORDED) -> dict[str, Any]:
    """Return what a reader judged: which flags are right, which lessons say the same, which rules decide a run."""
    verdicts: dict[str, Any] = json.loads((DATA / _VERDICTS[arm]).read_text(encoding="utf-8"))
    return verdicts
