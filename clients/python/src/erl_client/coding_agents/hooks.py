"""`erl hook`: what a coding agent runs at a prompt and at the end of a turn.

A hook never gets in the agent's way. If anything goes wrong, it prints nothing and exits with 0, and notes what it
could not record for `erl status`.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from erl_client.api import Destination
from erl_client.coding_agents import AGENTS
from erl_client.coding_agents.cpu_limit import TooMuchWork, limited_cpu
from erl_client.coding_agents.notes import HookNote, SessionNotes, note_hook, note_loss
from erl_client.coding_agents.repositories import find_family, work_in_progress
from erl_client.credentials import find_destination
from erl_client.plain import MAX_NAME_CHARS, MAX_TEXT_CHARS, as_text, cut
from erl_client.spool import Spool, spool_folder
from erl_client.transcripts.tasks import is_too_short

RECALL_SECONDS = 1.5  # of the two seconds that an agent waits, to the start of Python the rest
CONTEXT_TOKENS = 2_000  # Claude Code takes 10,000 characters
LAST_TASKS = 20  # of a session that is longer when its first hook runs, the others are left to `erl backfill`
SENDING_SECONDS = 20.0
MAX_NOTE_CHARS = 300
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
        parser.set_defaults(command=_noted(name, does))
    send = hooks.add_parser("send", help="send waiting runs; `erl hook record` starts this in the background")
    send.set_defaults(command=_quietly(_send))


def _quietly(does: Callable[[argparse.Namespace], None]) -> Callable[[argparse.Namespace], int]:
    def command(options: argparse.Namespace) -> int:
        with suppress(Exception):
            does(options)
        return 0

    return command


def _noted(name: str, does: Callable[[argparse.Namespace, Destination, HookNote], None]) -> Callable[..., int]:
    """Return a hook that never fails, and that notes for `erl status` what it did and how long that took."""

    def hook(options: argparse.Namespace) -> None:
        began, destination = time.monotonic(), find_destination()
        if not destination.api_key:
            return
        note = HookNote(agent=options.agent, hook=name)
        try:
            does(options, destination, note)
        except Exception as error:
            note.did = f"failed: {type(error).__name__}: {error}"[:MAX_NOTE_CHARS]
        try:
            note_hook(Spool(spool_folder(destination)), note, seconds=time.monotonic() - began)
        finally:
            if note.is_unfinished:
                os._exit(0)  # Python would wait for a thread that reads the standard input

    return _quietly(hook)


def _recall(options: argparse.Namespace, destination: Destination, note: HookNote) -> None:
    answers: list[dict[str, Any]] = []
    failures: list[Exception] = []

    def ask() -> None:
        try:
            answers.append(_ask(options, destination, note))
        except Exception as error:
            failures.append(error)

    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(RECALL_SECONDS)
    if answers and answers[0]:
        print(json.dumps(answers[0]), flush=True)
    if failures:
        raise failures[0]
    if asking.is_alive():
        note.did, note.is_unfinished = f"gave nothing: no answer within {RECALL_SECONDS:g} s", True


def _ask(options: argparse.Namespace, destination: Destination, note: HookNote) -> dict[str, Any]:
    """Return what the agent expects of its hook, {} where there are no lessons."""
    payload = _read_payload()
    event, prompt = str(payload.get("hook_event_name", "")), str(payload.get("prompt") or "")
    if is_too_short(prompt) if prompt else options.agent != "cursor":
        note.did = "gave nothing: the prompt is too short"
        return {}
    folder = _folder(payload)
    family = note.family = options.family or find_family(folder)
    question = {
        "task": cut(as_text(prompt), MAX_TEXT_CHARS) or work_in_progress(folder) or f"Work in {family}.",
        "task_id": as_text(family)[:MAX_NAME_CHARS],
        "families": [as_text(family)[:MAX_NAME_CHARS], ""],  # what was learnt for another owner stays there
        "agent": options.agent,
        "budget_tokens": CONTEXT_TOKENS,
    }
    answer = _retrieve(destination, question)
    context = answer.get("context")
    if not isinstance(context, str) or not context.strip():
        note.did = "found no lessons"
        return {}
    count = sum(bool(item.get("injected")) for item in answer.get("items", ()))
    lessons = "the record of earlier runs" if not count else f"{count} lesson{'' if count == 1 else 's'}"
    note.did = f"gave {lessons}"
    if session_id := _session_id(payload):
        notes = SessionNotes(Spool(spool_folder(destination)), options.agent, session_id)
        notes.note_given(prompt, str(answer.get("retrieval_id", "")))
    if options.agent == "cursor":
        return {"additional_context": context}
    return {
        "systemMessage": f"ERL gave {lessons} for {family}.",
        "hookSpecificOutput": {"hookEventName": event, "additionalContext": context},
    }


def _retrieve(destination: Destination, question: dict[str, Any]) -> dict[str, Any]:
    """Ask for lessons without httpx, whose import takes longer than all else here. Raises OSError or ValueError."""
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            return None  # the key is for this address only

    headers = {"Authorization": f"Bearer {destination.api_key}", "Content-Type": "application/json"}
    request = Request(  # noqa: S310 - the scheme is that of the user's own setting
        f"{destination.url}/api/v1/retrieve", data=json.dumps(question).encode(), headers=headers
    )
    with build_opener(NoRedirects).open(request, timeout=RECALL_SECONDS) as response:
        answer = json.loads(response.read())
    return answer if isinstance(answer, dict) else {}


def _record(options: argparse.Namespace, destination: Destination, note: HookNote) -> None:
    payload = _read_payload()
    path = payload.get("transcript_path")
    if not isinstance(path, str) or not path:
        note.did = "recorded nothing: the agent named no session file"
        return
    file, spool = Path(path).expanduser(), Spool(spool_folder(destination))
    notes = SessionNotes(spool, options.agent, _session_id(payload) or file.stem)
    with notes.locked() as mine:
        if not mine:
            note.did = "recorded nothing: another hook is reading the session"
        elif notes.is_given_up():
            note.did = "recorded nothing: an earlier hook took too long to read the session"
        else:
            try:
                with limited_cpu(RECORD_CPU_SECONDS):
                    _record_tasks(options, payload, file, spool, notes, note)
            except TooMuchWork:
                notes.give_up()
                note.did = f"recorded nothing: reading took more than {RECORD_CPU_SECONDS:g} s of processor time"
                note_loss(spool, file, f"reading it took more than {RECORD_CPU_SECONDS:g} s of processor time")
            except Exception as error:
                note.did = f"recorded nothing: {file} cannot be read: {error}"[:MAX_NOTE_CHARS]
                note_loss(spool, file, f"it cannot be read: {error}")
    if not spool.is_empty():
        _start_sender(spool)


def _record_tasks(
    options: argparse.Namespace,
    payload: Mapping[str, Any],
    file: Path,
    spool: Spool,
    notes: SessionNotes,
    note: HookNote,
) -> None:
    from erl_client.coding_agents.sessions import key_of, read_session, run_of

    read = read_session(options.agent, file, last=LAST_TASKS)
    family = note.family = options.family or find_family(read.session.folder or _folder(payload))
    recorded, counts = notes.recorded(), Counter[str]()
    for task in read.session.tasks:
        if task.id in recorded:
            counts["recorded before"] += 1
        elif task.problem:
            counts[f"left out: {task.problem}"] += 1
            note_loss(spool, file, f"{task.prompt[:60]!r} is {task.problem}")
            notes.note_recorded(task.id, "")
        elif reason := task.reason_to_skip:
            counts[f"skipped: {reason}"] += 1
        else:
            retrieval_id = notes.find_retrieval(task.prompt)
            spool.add(run_of(task, family=family, retrieval_id=retrieval_id), key=key_of(task))
            notes.note_recorded(task.id, retrieval_id)
            counts["recorded"] += 1
    done = ", ".join(f"{number} {what}" for what, number in counts.items() if what != "recorded")
    note.did = f"recorded {counts['recorded']} of {len(read.session.tasks)} tasks{f' ({done})' if done else ''}"


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
    from erl_client.client import ERL

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
