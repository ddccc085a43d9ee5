"""`erl hook`: what a coding agent runs at a prompt and at the end of a turn.

A hook never stands in the agent's way. Whatever goes wrong, it prints nothing and exits with 0. What it could not
record it notes for `erl status`.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

from erl_client.api import Api
from erl_client.client import ERL
from erl_client.coding_agents.cpu_limit import TooMuchWork, limited_cpu
from erl_client.coding_agents.notes import SessionNotes, note_loss
from erl_client.coding_agents.repositories import find_family, work_in_progress
from erl_client.coding_agents.sessions import AGENTS, key_of, read_session, run_of
from erl_client.credentials import find_destination
from erl_client.plain import MAX_NAME_CHARS, MAX_TEXT_CHARS, as_text, cut
from erl_client.spool import Spool, spool_folder
from erl_client.transcripts.tasks import is_too_short

RECALL_SECONDS = 1.5  # of the two seconds that an agent waits, to the start of Python the rest
CONTEXT_TOKENS = 2_000  # Claude Code takes 10,000 characters
LAST_TASKS = 20  # of a session that is longer when its first hook runs, the others are left to `erl backfill`
SENDING_SECONDS = 20.0
RECORD_CPU_SECONDS = 10.0  # an agent ends the hook after 30 seconds
SENDER = "from erl_client.cli import main; main(['hook', 'send'])"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    hook = commands.add_parser("hook", help="what coding agents run; set up by `erl install`")
    hooks = hook.add_subparsers(required=True, metavar="HOOK")
    for name, does, help_text in (
        ("recall", _recall, "print the lessons for the prompt in the hook's JSON on standard input"),
        ("record", _record, "record the tasks of the session in the hook's JSON on standard input"),
    ):
        parser = hooks.add_parser(name, help=help_text)
        parser.add_argument("--agent", default="claude-code", choices=AGENTS, help="the agent that runs the hook")
        parser.add_argument("--family", default="", help="the task family, instead of the repository's")
        parser.set_defaults(command=_quietly(does))
    send = hooks.add_parser("send", help="send waiting runs; `erl hook record` starts this in the background")
    send.set_defaults(command=_quietly(_send))


def _quietly(does: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    def command(options: argparse.Namespace) -> int:
        try:
            does(options)
        except Exception:
            return 0
        return 0

    return command


def _recall(options: argparse.Namespace) -> None:
    answers: list[dict[str, Any]] = []
    asking = Thread(target=_quietly(lambda options: answers.append(_ask(options))), args=(options,), daemon=True)
    asking.start()
    asking.join(RECALL_SECONDS)
    if answers and answers[0]:
        print(json.dumps(answers[0]), flush=True)
    if asking.is_alive():
        os._exit(0)  # Python would wait for a thread that reads the standard input


def _ask(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the agent expects of its hook, {} where there are no lessons."""
    payload, destination = _read_payload(), find_destination()
    event, prompt = str(payload.get("hook_event_name", "")), str(payload.get("prompt") or "")
    if not destination.api_key or (prompt and is_too_short(prompt)):
        return {}
    folder = _folder(payload)
    family = options.family or find_family(folder)
    question = {
        "task": cut(as_text(prompt), MAX_TEXT_CHARS) or work_in_progress(folder) or f"Work in {family}.",
        "task_id": as_text(family)[:MAX_NAME_CHARS],
        "families": [as_text(family)[:MAX_NAME_CHARS], ""],  # what was learnt for another owner stays there
        "agent": options.agent,
        "budget_tokens": CONTEXT_TOKENS,
    }
    with closing(Api(destination, timeout_seconds=RECALL_SECONDS)) as api:
        answer = api.post("/retrieve", question)
    context = answer.get("context")
    if not isinstance(context, str) or not context.strip():
        return {}
    if session_id := _session_id(payload):
        notes = SessionNotes(Spool(spool_folder(destination)), options.agent, session_id)
        notes.note_given(prompt, str(answer.get("retrieval_id", "")))
    if options.agent == "cursor":
        return {"additional_context": context}
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}


def _record(options: argparse.Namespace) -> None:
    payload, destination = _read_payload(), find_destination()
    path = payload.get("transcript_path")
    if not destination.api_key or not isinstance(path, str) or not path:
        return
    file, spool = Path(path).expanduser(), Spool(spool_folder(destination))
    notes = SessionNotes(spool, options.agent, _session_id(payload) or file.stem)
    with notes.locked() as mine:
        if mine and not notes.is_given_up():
            try:
                with limited_cpu(RECORD_CPU_SECONDS):
                    _record_tasks(options, payload, file, spool, notes)
            except TooMuchWork:
                notes.give_up()
                note_loss(spool, file, f"reading it took more than {RECORD_CPU_SECONDS:g} s of processor time")
            except Exception as error:
                note_loss(spool, file, f"it cannot be read: {error}")
    if not spool.is_empty():
        _start_sender(spool)


def _record_tasks(
    options: argparse.Namespace, payload: Mapping[str, Any], file: Path, spool: Spool, notes: SessionNotes
) -> None:
    read = read_session(options.agent, file, last=LAST_TASKS)
    family = options.family or find_family(read.session.folder or _folder(payload))
    recorded = notes.recorded()
    for task in read.session.tasks:
        if task.id in recorded:
            continue
        if task.problem:
            note_loss(spool, file, f"{task.prompt[:60]!r} is {task.problem}")
            notes.note_recorded(task.id, "")
        elif not task.reason_to_skip:
            retrieval_id = notes.find_retrieval(task.prompt)
            spool.add(run_of(task, family=family, retrieval_id=retrieval_id), key=key_of(task))
            notes.note_recorded(task.id, retrieval_id)


def _start_sender(spool: Spool) -> None:
    """Send what waits from a process of its own, which goes on when the agent ends its hooks."""
    devnull = subprocess.DEVNULL
    sender = subprocess.Popen(
        [sys.executable, "-c", SENDER],
        stdin=devnull,
        stdout=devnull,
        stderr=devnull,
        cwd=spool.folder,  # Python imports from the folder it starts in, which is not the agent's
        start_new_session=True,
    )
    sender.returncode = 0  # it outlives this process, and Python need not warn of that


def _send(options: argparse.Namespace) -> None:
    with ERL() as erl:
        erl.flush(SENDING_SECONDS)


def _read_payload() -> Mapping[str, Any]:
    payload = json.loads(sys.stdin.buffer.read().decode("utf-8-sig"))
    return payload if isinstance(payload, Mapping) else {}


def _session_id(payload: Mapping[str, Any]) -> str:
    return str(payload.get("session_id") or payload.get("conversation_id") or "")


def _folder(payload: Mapping[str, Any]) -> str:
    roots = payload.get("workspace_roots")
    return str(payload.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "") or Path.cwd())
