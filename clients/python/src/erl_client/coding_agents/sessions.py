"""The session files of coding agents, and their tasks as runs that ERL records."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from erl_client.plain import as_plain, fit
from erl_client.transcripts.formats import parse_lines
from erl_client.transcripts.tasks import LoggedTask, Session, cut_session


@dataclass(kw_only=True, slots=True)
class SessionFile:
    """A session, and its lines that cannot be read: each a sentence that begins with the place."""

    session: Session
    problems: list[str] = field(default_factory=list)


def default_folders(agent: str) -> list[Path]:
    """Return where an agent keeps its sessions."""
    if agent == "codex":
        home = Path(os.environ.get("CODEX_HOME") or Path.home() / ".codex")
        return [home / "sessions", home / "archived_sessions"]
    return [Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"]


def read_session(agent: str, file: Path, *, last: int = 0) -> SessionFile:
    """Read a session file: all of its tasks, or the last ones. Raises OSError."""
    lines, broken = parse_lines(file.read_text(encoding="utf-8", errors="replace"))
    problems = [f"{place}: {reason}" for place, reason in broken]
    objects = [line for line in lines if isinstance(line, dict)]
    if len(objects) < len(lines):
        problems.append(f"{len(lines) - len(objects)} lines are not JSON objects")
    return SessionFile(session=cut_session(agent, objects, name=file.stem, last=last), problems=problems)


def run_of(task: LoggedTask, *, family: str, retrieval_id: str = "", with_parent: bool = False) -> dict[str, Any]:
    """Return a task as `POST /api/v1/trajectories` takes it; `ERL_USER_ID` says who works here."""
    run = {"task_id": family, "user_id": os.environ.get("ERL_USER_ID", ""), **task.run.fields()}
    if parent := run.pop("parent_id", "") if not with_parent else "":
        run["metadata"] = {**run.get("metadata", {}), "parent_id": parent}
    if retrieval_id:
        run["retrieval_id"] = retrieval_id
    return fit(as_plain({name: value for name, value in run.items() if value not in (None, "")}))


def key_of(task: LoggedTask) -> str:
    """Return the Idempotency-Key of a task, made from the ids of session and prompt."""
    return str(uuid5(NAMESPACE_URL, task.run.external_id))
