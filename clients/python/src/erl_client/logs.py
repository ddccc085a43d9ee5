"""Runs in log files, in any format that ERL's converter reads, as `POST /api/v1/trajectories` takes them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from erl_client.plain import as_plain, fit
from erl_client.transcripts.formats import LogReading
from erl_client.transcripts.loading import read_log as read_content
from erl_client.transcripts.log import UnreadableTranscript

MEMBERS = (
    *("task", "task_id", "steps", "messages", "step_count", "agent", "user_id", "model", "tags", "summary", "mistakes"),
    *("successes", "mistake_cards", "tokens", "cost_usd", "external_id", "tools", "system_prompt", "started_at"),
    *("ended_at", "metadata", "retrieval_id", "parent_id", "outcome", "score", "outcome_source", "reflect"),
)


@dataclass(kw_only=True, slots=True)
class LogFile:
    """What a log was taken for, its runs, and what could not be read: each a sentence that begins with the place."""

    summary: str = ""
    runs: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_log(content: bytes, *, defaults: Mapping[str, Any]) -> LogFile:
    """Read JSON, JSON Lines or OTLP in protobuf. `defaults` are members of runs whose log does not say them.

    A run without an id gets one made from its content, so that recording it again changes nothing.
    """
    try:
        reading = read_content(content)
    except UnreadableTranscript as error:
        return LogFile(problems=[str(error)])
    problems = [f"{place}: {reason}" for place, reason in reading.problems]
    runs = [_complete(run, defaults) for run in _runs(reading)]
    named = [run for run in runs if run.get("task") or run.get("task_id")]
    if len(named) < len(runs):
        steps = sum(len(run.get("steps", ())) for run in runs if run not in named)
        problems.append(
            f"{reading.format}: {len(runs) - len(named)} runs, with {steps} steps, do not say what they were asked to "
            "do. Name their family to record them anyway."
        )
    return LogFile(summary=reading.summary(), runs=named, problems=problems)


def as_log(answers: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield runs, as the API answers them by id, in the form that another ERL takes; callers come first."""
    names = {id: str(run["external_id"] or id) for id, run in answers.items()}
    waiting = dict(answers)
    while waiting:
        run = waiting[next(iter(waiting))]
        while run["parent_id"] in waiting:
            run = waiting[run["parent_id"]]
        del waiting[run["id"]]
        left_out = {"retrieval_id", "step_count" if run["steps"] else ""}  # answers stay where they were given
        said = {name: run.get(name) for name in MEMBERS if name not in left_out}
        said |= {"external_id": names[run["id"]], "parent_id": names.get(run["parent_id"], run["parent_id"])}
        yield {name: value for name, value in said.items() if value not in (None, "", [], {})}


def _runs(reading: LogReading) -> Iterator[dict[str, Any]]:
    for transcript in reading.transcripts:
        yield transcript.fields()
    for _, own in reading.own:
        run = {name: value for name, value in own.items() if name in MEMBERS}
        extra = {name: value for name, value in own.items() if name not in MEMBERS and name != "id"}
        if "id" in own:
            run.setdefault("external_id", str(own["id"]))
        # ERL takes both names of the task family.
        if isinstance(own.get("family"), str) and own.get("task_id") in (None, "", own["family"]):
            run["task_id"] = extra.pop("family")
        yield {**run, "metadata": {**(run.get("metadata") or {}), **extra}}


def _complete(run: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    ends = {"outcome", "score"}
    known = {name: value for name, value in run.items() if value not in (None, "", [], {})}
    given = {name: value for name, value in defaults.items() if value not in (None, "")}
    if ends & set(known):
        given = {name: value for name, value in given.items() if name not in ends}
    whole = {**given, **known}
    if "external_id" not in whole:
        canonical = json.dumps(as_plain(whole), sort_keys=True, separators=(",", ":"))
        whole["external_id"] = f"sha256:{sha256(canonical.encode()).hexdigest()[:32]}"
    return fit(as_plain(whole))
