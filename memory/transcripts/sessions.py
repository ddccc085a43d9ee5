"""Read the session files of coding agents and the logs of benchmarks and agent frameworks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from .log import (
    Json,
    Log,
    Transcript,
    UnreadableTranscript,
    as_text,
    read_arguments,
    read_list,
    read_object,
    to_count,
    to_number,
)
from .messages import is_message, read_message, read_messages, read_or_leave_out

# What coding agents put into a session besides what a person wrote.
ADDED_BY_HARNESS = (
    "<environment_context>",
    "<user_instructions>",
    "<command-name>",
    "<command-message>",
    "<command-args>",
    "<local-command",
    "<system-reminder>",
    "<task-notification>",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<user-prompt-submit-hook>",
    "<ide_opened_file>",
    "<ide_selection>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<skill>",
    "<subagent_notification>",
    "<permissions instructions>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions",
)


def read_claude_code(lines: Sequence[Mapping[str, Json]]) -> list[Transcript]:
    """Return the sessions of Claude Code's session files; a sub-agent's side chain is a run of its own."""
    sessions: dict[tuple[str, str], list[Mapping[str, Json]]] = defaultdict(list)
    for line in lines:
        if _is_said(line):
            side = as_text(line.get("agentId") or "side") if line.get("isSidechain") else ""
            side = side or as_text(line.get("parent_tool_use_id"))  # of `claude -p --output-format stream-json`
            sessions[as_text(line.get("sessionId") or line.get("session_id")), side].append(line)
    runs = []
    for (session, side), entries in sessions.items():
        log = Log()
        tokens: dict[str, int] = {}
        model = ""
        for number, line in enumerate(_whole_messages(entries)):
            message = read_object(line["message"], f"line {number + 1}.message")
            usage = message.get("usage")
            if isinstance(usage, Mapping):
                counts = (to_count(usage.get(m)) for m in ("input_tokens", "output_tokens"))
                tokens[as_text(message.get("id")) or str(number)] = sum(counts)
            model = as_text(message.get("model")) or model
            if _is_added_by_harness(message):
                continue
            kept = {"role": message.get("role"), "content": message.get("content")}
            if line.get("timestamp"):
                kept["timestamp"] = line["timestamp"]
            read_or_leave_out(log, kept, f"message {number + 1}")
        first, last = entries[0], entries[-1]
        metadata = {name: first[name] for name in ("cwd", "gitBranch", "version") if first.get(name)}
        runs.append(
            log.transcript(
                format="claude-code",
                external_id=f"{session}/{side}" if side else session,
                parent_id=session if side else "",
                agent="claude-code",
                model=model,
                started_at=as_text(first.get("timestamp")),
                ended_at=as_text(last.get("timestamp")),
                tokens=sum(tokens.values()) or None,
                metadata=metadata,
            )
        )
    return runs


def _is_said(line: Mapping[str, Json]) -> bool:
    """Tell whether a line of Claude Code is a message, and not a note or a summary of what was said before."""
    is_message = line.get("type") in ("user", "assistant") and isinstance(line.get("message"), Mapping)
    return is_message and not line.get("isMeta") and not line.get("isCompactSummary")


def is_of_main_chain(line: Mapping[str, Json]) -> bool:
    """Tell whether a line of Claude Code is a message of the session itself, not of a sub-agent."""
    return _is_said(line) and not line.get("isSidechain")


def _whole_messages(entries: Iterable[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Join the lines of one message: each of its blocks has a line of its own."""
    whole: list[dict[str, Json]] = []
    for entry in entries:
        message = dict(read_object(entry["message"], "message"))
        previous = whole[-1]["message"] if whole else None
        if (
            previous
            and message.get("role") == "assistant"
            and message.get("id")
            and previous.get("id") == message["id"]
        ):
            previous["content"] += _blocks(message.get("content"))
            previous["usage"] = message.get("usage") or previous.get("usage")
        else:
            whole.append({**entry, "message": message})
            if message.get("role") == "assistant":
                message["content"] = _blocks(message.get("content"))  # a list of its own, to which others add
    return whole


def _blocks(content: Json) -> list[Json]:
    return list(content) if isinstance(content, list) else [{"type": "text", "text": as_text(content)}]


def read_codex(lines: Sequence[Mapping[str, Json]]) -> list[Transcript]:
    """Return the session of a Codex rollout file."""
    log = Log()
    meta: Mapping[str, Json] = {}
    model = ""
    tokens: int | None = None
    times = [as_text(line.get("timestamp")) for line in lines if line.get("timestamp")]
    for number, line in enumerate(lines, start=1):
        kind = line.get("type")
        payload = line.get("payload") if isinstance(line.get("payload"), Mapping) else line
        if kind == "session_meta" or (number == 1 and "id" in line and "role" not in line and kind is None):
            meta = payload if isinstance(payload, Mapping) else {}
        elif kind == "turn_context" and isinstance(payload, Mapping):
            model = as_text(payload.get("model")) or model
        elif kind == "event_msg":
            tokens = count_codex_tokens(line) or tokens
        elif kind == "response_item" or (kind != "event_msg" and "payload" not in line and (is_message(line))):
            item = read_object(payload, f"line {number}")
            if not _is_added_by_harness(item):
                read_or_leave_out(log, item, f"line {number}")
    identity = as_text(meta.get("id"))
    metadata = {name: meta[name] for name in ("cwd", "git", "cli_version", "originator") if meta.get(name)}
    run = log.transcript(
        format="codex",
        external_id=identity,
        agent="codex",
        model=model,
        started_at=times[0] if times else as_text(meta.get("timestamp")),
        ended_at=times[-1] if times else "",
        tokens=tokens,
        metadata=metadata,
    )
    return [run]


def count_codex_tokens(line: Mapping[str, Json]) -> int:
    """Return how many tokens a session of Codex had used when it wrote a line, 0 where the line does not say."""
    payload = line.get("payload")
    if line.get("type") != "event_msg" or not isinstance(payload, Mapping) or payload.get("type") != "token_count":
        return 0
    usage = payload.get("info")
    total = usage.get("total_token_usage") if isinstance(usage, Mapping) else None
    return to_count(total.get("total_tokens")) if isinstance(total, Mapping) else 0


def _is_added_by_harness(item: Mapping[str, Json]) -> bool:
    if item.get("role") != "user":
        return False
    blocks = _blocks(item.get("content"))
    texts = [as_text(block.get("text")) for block in blocks if isinstance(block, Mapping) and "text" in block]
    return len(texts) == len(blocks) > 0 and all(text.lstrip().startswith(ADDED_BY_HARNESS) for text in texts)


def read_swe_agent(document: Mapping[str, Json]) -> Transcript:
    """Return the run of a SWE-agent trajectory. Submitting says nothing about whether the patch is right."""
    log = Log()
    history = document.get("history")
    for message in history if isinstance(history, list) else []:
        if isinstance(message, Mapping) and message.get("role") == "user" and not message.get("is_demo"):
            log.task = _text_of(message.get("content"))
            break
    for number, step in enumerate(read_list(document.get("trajectory"), "trajectory")):
        step = read_object(step, f"trajectory[{number}]")
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
    info = document.get("info") if isinstance(document.get("info"), Mapping) else {}
    assert isinstance(info, Mapping)
    stats = info.get("model_stats") if isinstance(info.get("model_stats"), Mapping) else {}
    assert isinstance(stats, Mapping)
    counted = sum(to_count(stats.get(name)) for name in ("tokens_sent", "tokens_received"))
    environment = document.get("environment")
    return log.transcript(
        format="swe-agent",
        agent="swe-agent",
        task_id=environment if isinstance(environment, str) else "",
        tokens=counted or None,
        cost_usd=to_number(stats.get("instance_cost")),
        metadata={name: info[name] for name in ("exit_status", "submission") if info.get(name)},
    )


def _text_of(content: Json) -> str:
    if isinstance(content, list):
        return "\n".join(as_text(part.get("text")) for part in content if isinstance(part, Mapping) and "text" in part)
    return as_text(content)


def read_tau_bench(document: Mapping[str, Json]) -> Transcript:
    """Return a run of tau-bench, without the right actions in it: no reflector may see them."""
    log = Log()
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
    domain = as_text(environment.get("domain_name")) if isinstance(environment, Mapping) else ""
    runs = []
    for number, simulation in enumerate(read_list(document.get("simulations"), "simulations")):
        where = f"simulations[{number}]"
        simulation = read_object(simulation, where)
        log = Log()
        messages = read_list(simulation.get("messages"), f"{where}.messages")
        # The simulated user's own calls are no part of what the agent did.
        own = [
            m
            for m in messages
            if not (
                isinstance(m, Mapping)
                and (m.get("requestor") == "user" or (m.get("role") == "user" and m.get("tool_calls")))
            )
        ]
        read_messages(log, own, f"{where}.messages")
        reward = simulation.get("reward_info")
        task = next((str(m.get("content")) for m in own if isinstance(m, Mapping) and m.get("role") == "user"), "")
        run = log.transcript(
            format="tau2-bench",
            task=task,
            task_id=domain,
            external_id=as_text(simulation.get("id")),
            model=model,
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
    log = Log()
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
    log = Log()
    events = read_list(document.get("events"), "events")
    authors = [as_text(event.get("author")) for event in events if isinstance(event, Mapping)]
    stamps = [to_number(event.get("timestamp")) for event in events if isinstance(event, Mapping)]
    times = [stamp for stamp in stamps if stamp is not None]
    for number, event in enumerate(events):
        event = read_object(event, f"events[{number}]")
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
        read_message(log, {"role": role, "parts": parts or []}, f"events[{number}].content")
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
    log = Log()
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
        raise UnreadableTranscript(f"reward is {score}, and a score lies between 0 and 1.")
    run.score = score
    run.outcome_source = "environment"
