"""The commands of `erl`: what an agent's developer does from a terminal, over HTTP."""

import argparse
import getpass
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from erl_client.agent_loop import command as agent_loop
from erl_client.api import ERLError
from erl_client.client import ERL
from erl_client.coding_agents import backfill, hooks, install
from erl_client.coding_agents.notes import describe_hooks, find_losses
from erl_client.coding_agents.repositories import find_family
from erl_client.credentials import find_destination, write_credentials
from erl_client.lesson_files import export
from erl_client.lesson_files.export import count_of, describe, show_indented
from erl_client.lesson_files.formats import INSTRUCTIONS, read_lessons
from erl_client.lesson_files.proposals import find_known, import_lessons
from erl_client.logs import LogFile, read_log
from erl_client.mcp import serve
from erl_client.plain import as_json
from erl_client.spool import forget, spool_root
from erl_client.whole_project import MANIFEST, RUNS, import_all, is_whole_project

PAGE_SUFFIXES = (".md", ".markdown")
SHOWN_LOSSES = 5
SECONDS_BETWEEN_LINES = 10.0  # of progress in a log; a terminal's line is rewritten
LESSON_FILES = (*INSTRUCTIONS, "SKILL.md")  # pages that are read in folders too


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    login = commands.add_parser("login", help="check an address and a key, and store them")
    login.add_argument("--url", default="", help="the address of ERL")
    login.add_argument("--api-key", default="", help="the API key; it is safer to type it when asked")
    login.set_defaults(command=_login)

    context = commands.add_parser("context", help="print the lessons for a task")
    context.add_argument("task")
    context.add_argument("--family", default="", help="the task family")
    context.add_argument("--json", action="store_true", help="print the whole answer, with its retrieval_id")
    context.set_defaults(command=_context)

    record = commands.add_parser("record", help="record one run from a file or standard input: JSON or a log")
    record.add_argument("file", nargs="?", default="-", help="the file; - for standard input")
    _add_run_options(record)
    record.set_defaults(command=_record)

    imports = commands.add_parser(
        "import",
        help="record the runs in log files, and propose the lessons in AGENTS.md, SKILL.md and playbooks for review; "
        "or bring in the folder of a whole project",
    )
    imports.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file or a folder of files")
    imports.add_argument(
        "--dry-run", action="store_true", help="only show what would be sent; of a project: what does not fit"
    )
    imports.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ROWS",
        help="of a project: lessons, runs, settings or other rows, and what they cannot do without; may be repeated",
    )
    _add_run_options(imports)
    imports.set_defaults(command=_import)

    review = commands.add_parser("review", help="review proposed lessons one by one")
    review.add_argument("--list", action="store_true", help="only list them")
    review.set_defaults(command=_review)

    forgets = commands.add_parser(
        "forget", help="remove the runs that wait on this computer and hold any of these texts"
    )
    forgets.add_argument("texts", nargs="+", metavar="TEXT", help="such as a name, an address or a user id")
    forgets.set_defaults(command=_forget)

    status = commands.add_parser("status", help="show whether ERL answers, and which runs are waiting")
    status.set_defaults(command=_status)

    mcp = commands.add_parser(
        "mcp", help="serve ERL's tools over standard input and output, to agents that start MCP servers"
    )
    narrow = mcp.add_mutually_exclusive_group()
    narrow.add_argument("--family", default="", help="only give and record what belongs to this task family")
    narrow.add_argument(
        "--repository", action="store_true", help="the same for the family of the repository in this folder"
    )
    mcp.set_defaults(command=_mcp)
    install.add_parser(commands)
    hooks.add_parser(commands)
    backfill.add_parser(commands)
    export.add_parser(commands)
    agent_loop.add_parser(commands)


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", default="", help="the task, if the log does not say")
    parser.add_argument("--family", default="", help="the task family, if the log does not say")
    parser.add_argument("--agent", default="", help="the agent, if the log does not say")
    parser.add_argument(
        "--outcome", default="", choices=["success", "failure", "unknown"], help="the outcome, if the log does not say"
    )
    parser.add_argument("--score", type=float, help="the score from 0 to 1, if the log does not say")


def _client() -> ERL:
    return ERL(strict=True)


def _login(options: argparse.Namespace) -> int:
    url = options.url or os.environ.get("ERL_URL", "") or input("Address of ERL: ").strip()
    key = options.api_key or os.environ.get("ERL_API_KEY", "") or getpass.getpass("API key: ").strip()
    with ERL(url, key, strict=True) as erl:
        erl.api.get("/heuristics", limit=1)
        file = write_credentials(url=erl.destination.url, api_key=key)
    print(f"{url} accepts the key. Both are stored in {file}.")
    return 0


def _context(options: argparse.Namespace) -> int:
    with _client() as erl:
        answer = erl.api.post("/retrieve", {"task": options.task, "task_id": options.family})
    print(as_json(answer, indent=2) if options.json else answer["context"])
    return 0


def _record(options: argparse.Namespace) -> int:
    content = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    log = _read(content, options, name="" if options.file == "-" else options.file)
    if len(log.runs) != 1:
        print(f"erl: The log holds {len(log.runs)} runs. Use `erl import` to record several.", file=sys.stderr)
        return 1
    with _client() as erl:
        print(erl.api.post_patiently("/trajectories", log.runs[0])["id"])
    return 0


def _import(options: argparse.Namespace) -> int:
    counts = Counter[str]()
    known: set[str] | None = None
    if any(is_whole_project(path) for path in options.paths):
        return _import_project(options)
    if options.only:
        raise ERLError("--only is for the folder of a whole project, which `erl export --all` writes.")
    with _client() as erl:
        for file in _find_files(options.paths):
            content = file.read_bytes()
            lessons = read_lessons(content, file.name)
            if lessons is None:
                counts += _import_log(erl, file, _read(content, options, name=str(file)), options)
            else:
                known = find_known(erl) if known is None else known
                counts += import_lessons(erl, file, lessons, options, known)
    said = [f"{count_of(counts['run'], 'run')} {'found' if options.dry_run else 'recorded'}"]
    if known is not None:
        said = [f"{count_of(counts['lesson'], 'lesson')} {'found' if options.dry_run else 'proposed for review'}"]
        said += [f"{counts['known']} already there"]
        said += [f"{count_of(counts['run'], 'run')} recorded"] if counts["run"] else []
    print(f"{', '.join(said)}, {counts['refused']} refused.")
    return 1 if counts["refused"] else 0


def _import_project(options: argparse.Namespace) -> int:
    if len(options.paths) > 1:
        raise ERLError("Import the folder of a whole project by itself.")
    if any((options.task, options.family, options.agent, options.outcome, options.score is not None)):
        raise ERLError("The runs of a whole project say what they are: leave out --task, --family and the like.")

    shown_at = time.monotonic()

    def show(said: str) -> None:
        nonlocal shown_at
        if sys.stderr.isatty():
            print(f"\r{said:<70}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - shown_at >= SECONDS_BETWEEN_LINES:
            shown_at = time.monotonic()
            print(said, file=sys.stderr, flush=True)

    with _client() as erl:
        try:
            said = import_all(erl, options.paths[0], only=options.only, dry_run=options.dry_run, progress=show)
        finally:
            if sys.stderr.isatty():
                print(file=sys.stderr)
    print(said)
    return 0


def _import_log(erl: ERL, file: Path, log: LogFile, options: argparse.Namespace) -> "Counter[str]":
    print(f"{file}: {log.summary or 'nothing that can be read'}")
    counts = Counter(refused=len(log.problems))
    for run in log.runs:
        refusal = None if options.dry_run else erl.api.find_refusal("/trajectories", run)
        counts["refused" if refusal else "run"] += 1
        if refusal:
            print(f"{file}: {refusal}", file=sys.stderr)
    return counts


def _find_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files to import: those that are named, and those in folders that may hold runs or lessons."""
    for path in paths:
        # Its runs would be recorded again, under other ids and without all that refers to them.
        if parts := [path] if path.name == RUNS else sorted(path.rglob(RUNS)):
            folder = parts[0].parent
            raise ERLError(
                f"{parts[0]} is part of a whole project. Import {folder} by itself; if its {MANIFEST} is missing or "
                "damaged, copy the folder again."
            )
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            if file.is_file() and ".git" not in file.parts:
                if not file.resolve().is_relative_to(path.resolve()):
                    print(f"{file}: skipped. It is a link to {file.resolve()}, outside {path}.", file=sys.stderr)
                elif file.suffix.lower() in PAGE_SUFFIXES and file.name not in LESSON_FILES:
                    print(f"{file}: skipped. Name it to import its lessons.", file=sys.stderr)
                else:
                    yield file


def _read(content: bytes, options: argparse.Namespace, *, name: str) -> LogFile:
    """Read a log, and say on the standard error what of it cannot be read."""
    defaults = {
        "task": options.task,
        "task_id": options.family,
        "agent": options.agent,
        "outcome": options.outcome,
        "score": options.score,
    }
    log = read_log(content, defaults=defaults)
    for problem in log.problems:
        print(f"{name}: {problem}" if name else problem, file=sys.stderr)
    return log


def _review(options: argparse.Namespace) -> int:
    with _client() as erl:
        proposed = list(erl.api.list_all("/heuristics", status="proposed"))
        waiting = [lesson for lesson in proposed if not lesson.get("leader_id")]
        for number, lesson in enumerate(waiting, start=1):
            others = [other for other in proposed if other.get("leader_id") == lesson["id"]]
            read = [erl.api.get(f"/heuristics/{each['id']}") for each in (lesson, *others)]
            evidence = [seen for each in read for seen in each["evidence"]]
            quotes = [show_indented(f"Seen in run {seen['trajectory_id']}: {seen['quote']}") for seen in evidence]
            words = [f"Another wording, decided together with this one: {describe(other)}" for other in others]
            print("\n".join([f"[{number}/{len(waiting)}] {describe(lesson)}", *words, *quotes, ""]))
            if not options.list and not _decide(erl, lesson):
                return 0
    if not waiting:
        print("No lesson is waiting for a decision.")
    return 0


def _decide(erl: ERL, lesson: dict[str, Any]) -> bool:
    """Ask for a decision, which holds for the words that were shown, and tell whether to go on."""
    answer = input("[a]pprove, [r]eject, [s]kip, [q]uit? ").strip().lower()[:1]
    if answer in ("a", "r"):
        decision = {"content_sha256": lesson["content_sha256"]}
        if answer == "r":
            decision["reason"] = input("Why? ").strip()
        path = f"/heuristics/{lesson['id']}/{'approve' if answer == 'a' else 'reject'}"
        decided = erl.api.post(path, decision, idempotency_key=str(uuid4()))
        print(f"The lesson is now {decided['status']}.\n")
    return answer != "q"


def _forget(options: argparse.Namespace) -> int:
    print(f"{count_of(forget(spool_root(), options.texts), 'run')} removed from {spool_root()}.")
    return 0


def _status(options: argparse.Namespace) -> int:
    with _client() as erl:
        waiting, refused = len(erl.spool.waiting()), erl.spool.refused()
        print(f"ERL             {erl.destination.url}")
        try:
            counts = {status: _count(erl, status) for status in ("approved", "proposed")}
            print(f"Lessons         {counts['approved']} approved, {counts['proposed']} waiting for a decision")
        finally:
            print(f"Runs waiting    {waiting}{f' in {erl.spool.folder}' if waiting else ''}")
            print(f"Runs refused    {len(refused)}{f' in {erl.spool.refused_folder}' if refused else ''}")
            ran = describe_hooks(erl.spool) or ["none has run yet with this address and key"]
            print(f"Hooks           {show_indented(ran[0])}")
            for line in ran[1:]:
                print(f"                {show_indented(line)}")
            losses = find_losses(erl.spool)
            print(f"Not recorded    {len(losses)}")
            for loss in losses[-SHOWN_LOSSES:]:
                print(f"                {show_indented(loss)}")
    return 0


def _mcp(options: argparse.Namespace) -> int:
    messages, answers = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # whatever else is printed must not get between the answers
    family = find_family(str(Path.cwd())) if options.repository else options.family
    serve(find_destination(), messages, answers, family=family)
    return 0


def _count(erl: ERL, status: str) -> int:
    return int(erl.api.get("/heuristics", status=status, limit=1)["pagination"]["total"])
