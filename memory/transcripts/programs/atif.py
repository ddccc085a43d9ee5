"""ATIF, the format of Harbor and Terminal-Bench: `trajectory.json` in the `agent` folder of a trial."""

from collections.abc import Mapping

from ..items import Items, content, get, mapping, members, number, number_all, read_each, text, times
from ..log import Json, Log, Transcript, read_arguments, to_count, to_number
from .reader import Reader

_SOURCES = ("user", "agent", "system")


def read(items: Items) -> list[Transcript]:
    return [run for _, document in items for run in _read_trajectory(document)]


def _read_trajectory(document: Mapping[str, Json], parent: str = "") -> list[Transcript]:
    """Return the run of a trajectory, and those of the sub-agents that are written into it."""
    log = Log(keeps_going=True)
    steps = number_all(document.get("steps"), "steps")
    own = [item for item in steps if not item[1].get("is_copied_context")]
    if len(own) < len(steps):
        log.leave_out("steps", f"{len(steps) - len(own)} that were copied from an earlier trajectory")
    read_each(log, own, _read_step)
    agent, metrics = mapping(document, "agent"), mapping(document, "final_metrics")
    tokens = sum(to_count(metrics.get(name)) for name in ("total_prompt_tokens", "total_completion_tokens"))
    identity = text(document, "trajectory_id") or text(document, "session_id")
    known = members(document, "session_id", "notes", "continued_trajectory_ref", "extra", "schema_version")
    run = log.transcript(
        format="atif",
        external_id=identity,
        parent_id=parent,
        agent=text(agent, "name"),
        model=text(agent, "model_name") or log.model,
        tokens=tokens or None,
        cost_usd=to_number(metrics.get("total_cost_usd")),
        tools=agent.get("tool_definitions"),
        metadata=known | ({"version": agent["version"]} if agent.get("version") else {}),
        **times(own, "timestamp"),
    )
    below = number(document.get("subagent_trajectories"), "subagent_trajectories")
    return [run, *(child for _, each in below for child in _read_trajectory(each, identity))]


def _read_step(log: Log, step: Mapping[str, Json], where: str) -> bool | None:
    source = text(step, "source")
    said = content(log, step.get("message"), f"{where}.message")
    if source == "user":
        log.hear(said)
    elif source == "system":
        log.instruct(said)
    elif source == "agent":
        log.use(model=step.get("model_name"), usage=step.get("metrics"))
        log.think(text(step, "reasoning_content"))
        log.say(said)
        for place, call in number(step.get("tool_calls"), f"{where}.tool_calls"):
            name = text(call, "function_name") or "tool"
            log.call(name, read_arguments(call.get("arguments"), place), id=text(call, "tool_call_id"))
    for place, result in number(get(step, "observation", "results"), f"{where}.observation.results"):
        said = content(log, result.get("content"), f"{place}.content")
        references = members(result, "subagent_trajectory_ref")
        failed = bool(result.get("is_error") or get(result, "extra", "is_error"))
        said = said or (content(log, references, place) if references else "")
        log.result(said, id=text(result, "source_call_id"), failed=failed)
    return None if source in _SOURCES else False


def owns(document: Mapping[str, Json]) -> bool:
    return text(document, "schema_version").upper().startswith("ATIF") and "steps" in document


READER = Reader(name="ATIF", owns=owns, read=read, expects="an object with schema_version and steps", is_document=True)
