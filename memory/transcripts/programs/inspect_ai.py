"""Inspect: an evaluation's log as JSON, or the samples of an `.eval` archive (which `archives` opens)."""

from collections.abc import Mapping

from ..items import Items, get, mapping, members, number, number_all, read_each, text
from ..log import Json, Log, Transcript, as_text, to_count, to_number
from ..messages import read_or_leave_out
from .reader import Reader

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}


def owns(document: Mapping[str, Json]) -> bool:
    has_task = isinstance(document.get("eval"), Mapping) and "task" in document["eval"]
    return has_task and ("samples" in document or "status" in document)


def read(items: Items) -> list[Transcript]:
    found = []
    for _, document in items:
        about = mapping(document, "eval")
        found += [_read_sample(s, about, where) for where, s in number(document.get("samples"), "samples")]
    return found


def _read_sample(sample: Mapping[str, Json], about: Mapping[str, Json], where: str) -> Transcript:
    log = Log(keeps_going=True)
    attachments = mapping(sample, "attachments")
    given = sample.get("input")
    asked = (
        [("input", {"role": "user", "content": given})] if isinstance(given, str) else number(given, f"{where}.input")
    )
    messages = number_all(sample.get("messages"), f"{where}.messages") or asked

    def read_one(log: Log, message: Mapping[str, Json], where: str) -> bool | None:
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            return False
        kept = members(message, "role", "content", "tool_calls", "tool_call_id", "model") | {
            "content": _with_attachments(message.get("content"), attachments)
        }
        if message["role"] == "tool":
            error = text(message, "error", "message")
            kept |= members({"name": message.get("function"), "error": error}, "name", "error")
        calls = number(message.get("tool_calls"), where)
        kept["tool_calls"] = [
            {"id": call.get("id"), "name": call.get("function"), "args": call.get("arguments")} for _, call in calls
        ]
        read_or_leave_out(log, kept, where)
        return None

    read_each(log, messages, read_one)
    if error := text(sample, "error", "message"):
        log.fail(error)
    usage = [to_count(get(counts, "total_tokens")) for counts in mapping(sample, "model_usage").values()]
    score = _score(mapping(sample, "scores"))
    identity = text(sample, "uuid") or f"{text(about, 'run_id')}/{text(sample, 'id')}/{text(sample, 'epoch')}"
    return log.transcript(
        format="inspect",
        external_id=identity,
        task_id=text(about, "task"),
        agent=text(about, "solver"),
        model=text(about, "model"),
        tokens=sum(usage) or None,
        score=score,
        outcome_source="" if score is None else "environment",
        started_at=sample.get("started_at") or "",
        ended_at=sample.get("completed_at") or "",
        metadata=members(sample, "id", "epoch", "limit") | {"scores": as_text(sample.get("scores"))[:2_000]},
    )


def _score(scores: Mapping[str, Json]) -> float | None:
    """Return the first score as a number from 0 to 1, None where it has no such scale."""
    value = get(next(iter(scores.values()), None), "value")
    if isinstance(value, bool):
        return float(value)
    number = _GRADES.get(value) if isinstance(value, str) else to_number(value)
    return number if number is not None and 0 <= number <= 1 else None


def _with_attachments(content: Json, attachments: Mapping[str, Json]) -> Json:
    """Put long texts back, which are kept apart from the messages."""
    if isinstance(content, str):
        name = content.removeprefix("attachment://")
        return attachments.get(name, content) if name != content else content
    if isinstance(content, list):
        return [
            {name: _with_attachments(value, attachments) if name == "text" else value for name, value in part.items()}
            for part in content
            if isinstance(part, Mapping)
        ]
    return content


READER = Reader(name="Inspect", owns=owns, read=read, expects="an object with eval and samples", is_document=True)
