"""`erl backfill`: record the sessions that a coding agent left before it had hooks."""

import argparse
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from erl_client.api import ERLError, Refused
from erl_client.client import ERL
from erl_client.coding_agents.cpu_limit import TooMuchWork, limited_cpu
from erl_client.coding_agents.notes import SessionNotes
from erl_client.coding_agents.repositories import find_family
from erl_client.coding_agents.sessions import default_folders, read_session, run_of
from erl_client.credentials import find_destination
from erl_client.spool import Spool, spool_folder
from erl_client.transcripts.tasks import LoggedTask

ALREADY_SENT = "already sent"
PROGRESS_RUNS = 10
FILE_CPU_SECONDS = 60.0


@dataclass(kw_only=True, slots=True)
class Found:
    """What session files hold: the tasks to send, and how many are skipped, by reason."""

    sessions: int = 0
    tasks: int = 0
    waiting: dict[Path, set[str]] = field(default_factory=dict)  # the ids of tasks, by file
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    backfill = commands.add_parser(
        "backfill",
        help="record a coding agent's earlier sessions on this computer",
        usage="erl backfill claude-code|codex [PATH] [--dry-run] [--since DATE] [--family F]",
    )
    backfill.add_argument("agent", choices=["claude-code", "codex"])
    backfill.add_argument("path", nargs="?", type=Path, help="a session file or a folder, instead of the agent's own")
    backfill.add_argument("--dry-run", action="store_true", help="only say what would be sent")
    backfill.add_argument(
        "--since", type=_date, metavar="DATE", help="leave out tasks from before a date, such as 2026-01-31"
    )
    backfill.add_argument("--family", default="", help="the task family, instead of the repository's")
    backfill.set_defaults(command=_backfill)


def _backfill(options: argparse.Namespace) -> int:
    folders = [options.path] if options.path else default_folders(options.agent)
    if not any(folder.exists() for folder in folders):
        raise ERLError(f"There are no sessions in {' or '.join(map(str, folders))}.")
    found = _find(options, folders)
    print(f"Found {_count(found.sessions, 'session')} with {_count(found.tasks, 'task')}.")
    for reason, count in found.skipped.most_common():
        print(f"Skipped {count}: {reason}")
    for problem in found.problems:
        print(problem)
    print(f"To send: {sum(map(len, found.waiting.values()))}")
    return 0 if options.dry_run or not found.waiting else _send(options, found)


def _find(options: argparse.Namespace, folders: list[Path]) -> Found:
    found = Found()
    spool = Spool(spool_folder(find_destination()))
    for file in sorted(file for folder in folders for file in _files(folder)):
        if options.agent == "claude-code" and file.stem.startswith("agent-"):
            found.skipped["session of a sub-agent"] += 1
            continue
        try:
            with limited_cpu(FILE_CPU_SECONDS):
                read = read_session(options.agent, file)
        except OSError as error:
            found.problems.append(f"{file} cannot be read: {error.strerror}")
            continue
        except TooMuchWork:
            found.problems.append(f"{file} is left out: it took more than {FILE_CPU_SECONDS:g} s of processor time.")
            continue
        found.problems += [f"{file}, {problem}" for problem in read.problems]
        found.sessions += 1
        found.tasks += len(read.session.tasks)
        recorded = SessionNotes(spool, options.agent, read.session.id).recorded()
        for task in read.session.tasks:
            reason = ALREADY_SENT if task.id in recorded else task.reason_to_skip
            if not reason and options.since and _started(task) < options.since:
                reason = f"before {options.since.date()}"
            if reason:
                found.skipped[reason] += 1
            else:
                found.waiting.setdefault(file, set()).add(task.id)
    return found


def _send(options: argparse.Namespace, found: Found) -> int:
    """Send the tasks, file by file: all sessions at once may not fit into memory."""
    sent = refused = 0
    total = sum(map(len, found.waiting.values()))
    with ERL(strict=True) as erl:
        for file, ids in found.waiting.items():
            session = read_session(options.agent, file).session
            notes = SessionNotes(erl.spool, options.agent, session.id)
            family = options.family or find_family(session.folder)
            for task in session.tasks:
                if task.id not in ids:
                    continue
                ids.discard(task.id)  # a damaged session may hold a task twice
                try:
                    _record(erl, task, family)
                except Refused as error:
                    if error.is_about_the_key:
                        raise
                    refused += 1
                    print(f"{file}, {task.prompt[:60]!r}: {error}")
                    continue
                except ERLError:
                    print(f"Sent {sent} of {total}. Run the command again to send the others.")
                    raise
                notes.note_recorded(task.id, "")
                sent += 1
                if sent % PROGRESS_RUNS == 0:
                    print(f"Sent {sent} of {total} …", flush=True)
    print(f"Sent {sent} of {total}{f', {refused} refused' if refused else ''}.")
    return 1 if refused else 0


def _record(erl: ERL, task: LoggedTask, family: str) -> None:
    try:
        try:
            erl.api.post_patiently("/trajectories", run_of(task, family=family, with_parent=True))
        except Refused as error:
            if error.code != "not_found":
                raise
            erl.api.post_patiently("/trajectories", run_of(task, family=family))  # its parent is not recorded
    except Refused as error:
        if error.code != "external_id_taken":  # recorded before, by another computer or when the task was shorter
            raise


def _files(folder: Path) -> list[Path]:
    return [folder] if folder.is_file() else [file for file in folder.rglob("*.jsonl") if file.is_file()]


def _started(task: LoggedTask) -> datetime:
    """Return when a task began. One that does not say so is taken as new."""
    if not task.run.started_at:
        return datetime.max.replace(tzinfo=timezone.utc)
    return datetime.fromisoformat(task.run.started_at)


def _date(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"
