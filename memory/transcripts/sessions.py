"""Read the logs of benchmarks and agent frameworks."""

import re
from collections.abc import Mapping, Sequence

from .chat import read_instructions
from .items import get, number, number_all, read_each, text
from .log import Json, Log, Transcript, as_text, parse, read_arguments, read_list, to_count, to_number
from .messages import read_messages, read_or_leave_out

MAX_PLACE_CHARACTERS = 200
_INSTANCE = re.compile(r"(?P<owner>[\w.-]{1,80})__(?P<name>[\w.-]{1,80})-i?[0-9a-f]{1,16}")
_ADDRESS = re.compile(r"(?:https?://|git@)github\.com[/:](?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?")
_FOLDER = re.compile(r"/(?P<owner>[A-Za-z\d.-]+)__(?P<name>[A-Za-z\d.-]+)")


def read_swe_agent(document: Mapping[str, Json]) -> Transcript:
    """Return the run of a SWE-agent trajectory. Submitting says nothing about whether the patch is right."""
    log = Log(keeps_going=True)
    history = document.get("history")
    for message in history if isinstance(history, list) else []:
        if not isinstance(message, Mapping):
            continue
        if message.get("role") == "system" and not log.told:
            log.instruct(_text_of(message.get("content")))
        if message.get("role") == "user" and not message.get("is_demo"):
            log.task = _text_of(message.get("content"))
            break
    read_each(log, number_all(document.get("trajectory"), "trajectory"), _read_swe_agent_step)
    info = document.get("info") if isinstance(document.get("info"), Mapping) else {}
    assert isinstance(info, Mapping)
    stats = info.get("model_stats") if isinstance(info.get("model_stats"), Mapping) else {}
    assert isinstance(stats, Mapping)
    counted = sum(to_count(stats.get(name)) for name in ("tokens_sent", "tokens_received"))
    return log.transcript(
        format="swe-agent",
        agent="swe-agent",
        task_id=_find_repository(document) or "swe-agent",
        tokens=counted or None,
        cost_usd=to_number(stats.get("instance_cost")),
        metadata={name: info[name] for name in ("exit_status", "submission") if info.get(name)},
    )


def _find_repository(document: Mapping[str, Json]) -> str:
    """Return the repository that SWE-agent worked on, such as "django/django".

    Its `environment` is no family: "swe_main" and "main" are the same work in two of its versions.
    """
    setup = parse(document.get("replay_config"))
    states = [parse(step.get("state")) for _, step in number_all(document.get("trajectory"), "trajectory")[:1]]
    places = (
        (_INSTANCE, get(setup, "problem_statement", "id")),
        (_ADDRESS, get(setup, "env", "repo", "github_url")),
        (_FOLDER, get(states[0], "working_dir") if states else ""),
    )
    for pattern, place in places:
        if match := pattern.fullmatch(as_text(place)[:MAX_PLACE_CHARACTERS]):
            return f"{match['owner']}/{match['name']}"
    return ""


def _read_swe_agent_step(log: Log, step: Mapping[str, Json], where: str) -> None:
    action = as_text(step.get("action")).strip()
    name, _, rest = action.partition(" ")
    log.think(as_text(step.get("thought")).strip())
    if action:
        log.call(
            name.splitlines()[0] if name else "run",
            {"input": action if "\n" in name else rest.strip()} if rest.strip() or "\n" in name else {},
        )
        log.result(as_text(step.get("observation")))
    else:
        log.say(as_text(step.get("response")))
        log.hear(as_text(step.get("observation")))


def _text_of(content: Json) -> str:
    if isinstance(content, list):
        return "\n".join(as_text(part.get("text")) for part in content if isinstance(part, Mapping) and "text" in part)
    return as_text(content)


def read_tau_bench(document: Mapping[str, Json]) -> Transcript:
    """Return a run of tau-bench, without the right actions in it: no reflector may see them."""
    log = Log(keeps_going=True)
    info = document.get("info")
    task = info.get("task") if isinstance(info, Mapping) else None
    read_messages(log, read_list(document.get("traj"), "traj"), "traj")
    known = {name: document[name] for name in ("task_id", "trial") if name in document}
    run = log.transcript(format="tau-bench", metadata=known)
    instruction = task.get("instruction") if isinstance(task, Mapping) else None
    run.task = as_text(instruction) or run.task
    _judge(run, to_number(document.get("reward")))
    return run


def read_tau2_bench(document: Mapping[str, Json]) -> list[Transcript]:
    """Return the simulations of a tau²-bench results file."""
    info = document.get("info")
    agent_info = info.get("agent_info") if isinstance(info, Mapping) else None
    environment = info.get("environment_info") if isinstance(info, Mapping) else None
    model = as_text(agent_info.get("llm")) if isinstance(agent_info, Mapping) else ""
    environment = environment if isinstance(environment, Mapping) else {}
    domain = as_text(environment.get("domain_name"))
    offered = environment.get("tool_defs")
    runs = []
    for where, simulation in number(document.get("simulations"), "simulations"):
        log = Log(keeps_going=True)
        messages = [message for _, message in number(simulation.get("messages"), f"{where}.messages")]
        read_instructions(log, {"system": environment.get("policy")}, "info")
        # The simulated user's own calls are no part of what the agent did.
        own = [
            m
            for m in messages
            if not (m.get("requestor") == "user" or (m.get("role") == "user" and m.get("tool_calls")))
        ]
        read_messages(log, own, f"{where}.messages")
        reward = simulation.get("reward_info")
        task = next((str(m.get("content")) for m in own if m.get("role") == "user"), "")
        run = log.transcript(
            format="tau2-bench",
            task=task,
            task_id=domain,
            external_id=as_text(simulation.get("id")),
            model=model,
            tools=list(offered.values()) if isinstance(offered, Mapping) else offered,
            started_at=as_text(simulation.get("start_time")),
            ended_at=as_text(simulation.get("end_time")),
            cost_usd=to_number(simulation.get("agent_cost")),
            metadata={n: v for n in ("task_id", "trial", "termination_reason") if (v := simulation.get(n)) is not None},
        )
        _judge(run, to_number(reward.get("reward")) if isinstance(reward, Mapping) else None)
        runs.append(run)
    return runs


def read_agentdojo(document: Mapping[str, Json]) -> Transcript:
    """Return a run of AgentDojo; `utility` says whether the user's task was solved."""
    log = Log(keeps_going=True)
    read_messages(log, read_list(document.get("messages"), "messages"), "messages")
    names = ("suite_name", "user_task_id", "injection_task_id", "attack_type", "security", "pipeline_name", "error")
    run = log.transcript(
        format="agentdojo",
        task_id=as_text(document.get("suite_name")),
        agent=as_text(document.get("pipeline_name")),
        metadata={name: document[name] for name in names if document.get(name) not in (None, "")},
    )
    utility = document.get("utility")
    _judge(run, float(utility) if isinstance(utility, bool) else None)
    return run


def read_adk(document: Mapping[str, Json]) -> Transcript:
    """Return the session of Google's Agent Development Kit: its events hold Gemini contents."""
    log = Log(keeps_going=True)
    events = number(document.get("events"), "events")
    authors = [text(event, "author") for _, event in events]
    stamps = [to_number(event.get("timestamp")) for _, event in events]
    times = [stamp for stamp in stamps if stamp is not None]
    for where, event in events:
        content = event.get("content")
        if not isinstance(content, Mapping) or event.get("partial"):
            continue
        author = as_text(event.get("author"))
        parts = content.get("parts")
        has_results = isinstance(parts, list) and any(
            "functionResponse" in p or "function_response" in p for p in parts if isinstance(p, Mapping)
        )
        role = "user" if author == "user" or has_results else "model"
        log.use(model=event.get("modelVersion"), usage=event.get("usageMetadata", event.get("usage_metadata")))
        read_or_leave_out(log, {"role": role, "parts": parts or []}, f"{where}.content")
    metadata = {n: v for n in ("userId", "user_id", "state") if (v := document.get(n))}
    return log.transcript(
        format="adk",
        external_id=as_text(document.get("id")),
        agent=as_text(document.get("appName", document.get("app_name")))
        or next((a for a in authors if a != "user"), ""),
        metadata=metadata,
        started_at=min(times, default=None),
        ended_at=max(times, default=None),
    )


def read_crewai(entries: Sequence[Mapping[str, Json]]) -> Transcript:
    """Return the run of a CrewAI output log: each completed task is a step of the agent that did it."""
    log = Log(keeps_going=True)
    done = [entry for entry in entries if entry.get("status") in (None, "completed", "failed")]
    tasks = [as_text(entry.get("task")) for entry in done]
    log.task = tasks[0] if tasks else ""
    for entry in done:
        if entry.get("timestamp"):
            log.note({"timestamp": entry["timestamp"]})
        name = as_text(entry.get("task_name")) or "task"
        log.call(name, read_arguments({"task": entry.get("task"), "agent": entry.get("agent")}, "task"))
        log.result(as_text(entry.get("output")), failed=entry.get("status") == "failed")
    times = [as_text(entry.get("timestamp")) for entry in entries if entry.get("timestamp")]
    return log.transcript(
        format="crewai",
        agent=as_text(entries[-1].get("agent")) if entries else "",
        started_at=times[0] if times else "",
        ended_at=times[-1] if times else "",
    )


def _judge(run: Transcript, score: float | None) -> None:
    """Take the score of an environment as the outcome."""
    if score is None:
        return
    if not 0 <= score <= 1:
        run.left_out.append(f"reward: {score}, and a score lies between 0 and 1")
        return
    run.score = score
    run.outcome_source = "environment"
