"""The command `erl`: what an agent's developer does from a terminal, over HTTP."""

import argparse
import getpass
import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from erl_client.agent_loop import Limits, Plan, run_loop
from erl_client.api import ERLError, Refused, Unavailable
from erl_client.blocks import (
    UnreadableBlock,
    add_front_matter,
    find_block,
    find_file,
    find_missing_members,
    is_for,
    put_block,
    replace_file,
    write_block,
)
from erl_client.client import ERL
from erl_client.credentials import write_credentials
from erl_client.lesson_files import LessonFile, as_proposal, get_words, read_lessons
from erl_client.logs import LogFile, read_log

PAGE_ROWS = 200
EXPORT_BUDGET_TOKENS = 1_500
MAX_BREAKS = 5
LONGEST_BREAK_SECONDS = 120.0
PAGE_SUFFIXES = (".md", ".markdown")
LESSON_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "SKILL.md")  # pages that are read in folders too
WORDS = ("trigger", "guideline", "avoid", "not_when")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, or 1 where something could not be done."""
    options = _parser().parse_args(arguments)
    try:
        done: int = options.command(options)
    except (ERLError, OSError) as error:
        print(f"erl: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, EOFError):
        print(file=sys.stderr)
        return 130
    return done


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="erl",
        description="Lessons for AI agents. The address and the key of ERL are read from ERL_URL and ERL_API_KEY, or "
        "else from what `erl login` stored.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    login = commands.add_parser("login", help="check an address and a key, and store them")
    login.add_argument("--url", default="", help="the address of ERL")
    login.add_argument("--api-key", default="", help="the key; better typed where the command asks for it")
    login.set_defaults(command=_login)

    context = commands.add_parser("context", help="print the lessons for a task")
    context.add_argument("task")
    context.add_argument("--family", default="", help="the task family")
    context.add_argument("--json", action="store_true", help="print the whole answer, with its retrieval_id")
    context.set_defaults(command=_context)

    record = commands.add_parser("record", help="record one run: JSON or a log, of a file or of the standard input")
    record.add_argument("file", nargs="?", default="-", help="the file; - is the standard input")
    _add_run_options(record)
    record.set_defaults(command=_record)

    imports = commands.add_parser(
        "import",
        help="record the runs of log files in any format, and propose the lessons of AGENTS.md, SKILL.md, playbooks",
    )
    imports.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file, or a folder of them")
    imports.add_argument("--dry-run", action="store_true", help="say what would be sent, and send nothing")
    _add_run_options(imports)
    imports.set_defaults(command=_import)

    export = commands.add_parser("export", help="print the approved lessons, or write them into a file of your agents")
    export.add_argument("--family", default="", help="only those for a task family")
    export.add_argument("--json", action="store_true", help="one JSON object a line")
    export.add_argument("--to", type=Path, metavar="FILE", help="AGENTS.md, SKILL.md, any .md file, or .cursor/rules")
    export.add_argument(
        "--budget", type=int, default=EXPORT_BUDGET_TOKENS, metavar="TOKENS", help="room in the file (default: 1500)"
    )
    export.add_argument("--check", action="store_true", help="only say whether the file has the newest lessons")
    export.add_argument("--force", action="store_true", help="write over lessons that were edited by hand")
    export.set_defaults(command=_export)

    review = commands.add_parser("review", help="decide on proposed lessons, one after the other")
    review.add_argument("--list", action="store_true", help="only list them")
    review.set_defaults(command=_review)

    loop = commands.add_parser(
        "loop",
        help="run an agent's command until a goal is reached",
        usage="erl loop --goal TEXT [--check CMD] [--max-iterations N] [--family F] [--state DIR] -- CMD …",
        description="Each iteration is a process of its own, with ERL_GOAL, ERL_ITERATION, ERL_LESSONS and "
        "ERL_LESSONS_FILE in its environment, and is recorded as a run. A loop that was stopped or killed goes on "
        "where it was when the same command is started again.",
    )
    loop.add_argument("--exec", action="store_true", help="the agent is the command after --; nothing else is yet")
    loop.add_argument("--goal", required=True, help="what the agent is to reach: the task of each run")
    loop.add_argument("--check", default="", metavar="CMD", help="exits with 0 when the goal is reached")
    loop.add_argument("--max-iterations", type=int, default=5, metavar="N", help="iterations at most (default: 5)")
    loop.add_argument(
        "--timeout", type=float, default=3_600, metavar="SECONDS", help="for an iteration (default: 3600)"
    )
    loop.add_argument("--family", default="", help="the task family")
    loop.add_argument("--state", type=Path, default=Path(".erl-loop"), metavar="DIR", help="default: .erl-loop")
    loop.add_argument("words", nargs="+", metavar="CMD", help="the agent and its arguments, after --")
    loop.set_defaults(command=_loop)

    status = commands.add_parser("status", help="say whether ERL answers, and which runs wait for it")
    status.set_defaults(command=_status)
    return parser


def _add_run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--task", default="", help="what the run was asked to do, where the log does not say")
    parser.add_argument("--family", default="", help="the task family, where the log does not say")
    parser.add_argument("--agent", default="", help="the agent that ran, where the log does not say")
    parser.add_argument(
        "--outcome", default="", choices=["success", "failure", "unknown"], help="how it ended, likewise"
    )
    parser.add_argument("--score", type=float, help="from 0 to 1, likewise")


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
    print(json.dumps(answer, ensure_ascii=False, indent=2) if options.json else answer["context"])
    return 0


def _record(options: argparse.Namespace) -> int:
    content = sys.stdin.buffer.read() if options.file == "-" else Path(options.file).read_bytes()
    log = _read(content, options, name="" if options.file == "-" else options.file)
    if len(log.runs) != 1:
        print(f"erl: There are {len(log.runs)} runs in it. `erl import` records several.", file=sys.stderr)
        return 1
    with _client() as erl:
        print(_post(erl, "/trajectories", log.runs[0])["id"])
    return 0


def _import(options: argparse.Namespace) -> int:
    counts = Counter[str]()
    known: set[Any] | None = None
    with _client() as erl:
        for file in _find_files(options.paths):
            content = file.read_bytes()
            lessons = read_lessons(content, file.name)
            if lessons is None:
                counts += _import_log(erl, file, _read(content, options, name=str(file)), options)
            else:
                known = _find_known(erl) if known is None else known
                counts += _import_lessons(erl, file, lessons, options, known)
    said = [f"{_count_of(counts['run'], 'run')} {'found' if options.dry_run else 'recorded'}"]
    if known is not None:
        said = [f"{_count_of(counts['lesson'], 'lesson')} {'found' if options.dry_run else 'proposed for review'}"]
        said += [f"{counts['known']} there already"]
        said += [f"{_count_of(counts['run'], 'run')} recorded"] if counts["run"] else []
    print(f"{', '.join(said)}, {counts['refused']} refused.")
    return 1 if counts["refused"] else 0


def _import_log(erl: ERL, file: Path, log: LogFile, options: argparse.Namespace) -> "Counter[str]":
    print(f"{file}: {log.summary or 'nothing that can be read'}")
    counts = Counter(refused=len(log.problems))
    for run in log.runs:
        refusal = None if options.dry_run else _find_refusal(erl, "/trajectories", run)
        counts["refused" if refusal else "run"] += 1
        if refusal:
            print(f"{file}: {refusal}", file=sys.stderr)
    return counts


def _find_known(erl: ERL) -> set[Any]:
    """Return the words and the labels of all lessons there are, whatever was decided on them."""
    lessons = list(_all(erl, "/heuristics"))
    return {get_words(lesson) for lesson in lessons} | {f"H-{lesson['id'][-8:]}" for lesson in lessons}


def _import_lessons(
    erl: ERL, file: Path, lessons: LessonFile, options: argparse.Namespace, known: set[Any]
) -> "Counter[str]":
    """Propose the lessons of a file that are not there yet. Nothing is served before a person approves it."""
    print(f"{file}: {lessons.summary()}")
    for problem in lessons.problems:
        print(f"{file}, {problem}", file=sys.stderr)
    counts = Counter(refused=len(lessons.problems))
    for entry in lessons.entries:
        body = as_proposal(entry, file=str(file), format=lessons.format, family=options.family)
        if {get_words(body), entry.label} & known:
            counts["known"] += 1
            continue
        known.add(get_words(body))
        refusal = None if options.dry_run else _find_refusal(erl, "/heuristics", body)
        counts["refused" if refusal else "lesson"] += 1
        if refusal:
            print(f"{file}, {entry.place}: {refusal}", file=sys.stderr)
        elif options.dry_run:
            print(f"{entry.place}: When {entry.trigger}: {' '.join(entry.guideline.split())}")
    return counts


def _find_files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield the files to import: those that are named, and those in folders that may hold runs or lessons."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            if file.is_file() and ".git" not in file.parts:
                if file.suffix.lower() in PAGE_SUFFIXES and file.name not in LESSON_FILES:
                    print(f"{file}: passed over. Name it to import its lessons.", file=sys.stderr)
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


def _find_refusal(erl: ERL, path: str, body: dict[str, Any]) -> Refused | None:
    """Send a run or a lesson, or return why ERL will not have it."""
    try:
        _post(erl, path, body)
    except Refused as error:
        if error.is_about_the_key:
            raise
        return error
    return None


def _post(erl: ERL, path: str, body: dict[str, Any], *, breaks: int = MAX_BREAKS) -> dict[str, Any]:
    """Send a run or a lesson, which has an id of its own. Where ERL asks for a break, take it and send it again."""
    try:
        return erl.api.post(path, body)
    except Unavailable as error:
        wait = error.retry_after_seconds
        if not breaks or wait is None or wait > LONGEST_BREAK_SECONDS:
            raise
    time.sleep(wait)
    return _post(erl, path, body, breaks=breaks - 1)


def _export(options: argparse.Namespace) -> int:
    with _client() as erl:
        if options.to:
            return _export_to(erl, options)
        for lesson in _all(erl, "/heuristics", served="true"):
            words = {"id": lesson["id"], **lesson["served_revision"]}  # not the newest wording, which may be undecided
            if is_for(words, options.family):
                print(json.dumps(words, ensure_ascii=False) if options.json else _describe(words) + "\n")
    return 0


def _export_to(erl: ERL, options: argparse.Namespace) -> int:
    """Write the lessons into a file, or say whether it has the newest ones."""
    file = find_file(options.to, options.family)
    said = ["erl", "export", "--to", str(options.to)]
    said += ["--family", options.family] if options.family else []
    said += ["--budget", str(options.budget)] if options.budget != EXPORT_BUDGET_TOKENS else []
    command = shlex.join(said)
    content = file.read_bytes() if file.exists() else b""
    try:
        old = find_block(content, options.family)
    except UnreadableBlock as error:
        raise ERLError(f"{file}, {error}") from None
    if old and old.is_edited and (options.check or not options.force):
        raise ERLError(
            f"{file}: the lessons between the marked lines were edited by hand. Change lessons in ERL. "
            f"`{command} --force` writes the approved ones over the edit."
        )
    new = write_block(_all(erl, "/heuristics", served="true"), family=options.family, budget_tokens=options.budget)
    figures = f"{_count_of(len(new.taken))}, {new.tokens if new.taken else 0:,} of {options.budget:,} tokens"
    if not old and not new.taken:
        print(f"No lesson is approved for {file} yet.")
        return 0
    is_newest = old is not None and old.text == new.text
    if options.check and not is_newest:
        raise ERLError(f"{file} does not have the newest lessons ({figures}). Run `{command}`.")
    if is_newest:
        print(f"{file} has the newest lessons: {figures}.")
        return 0
    whole = put_block(add_front_matter(content, file, options.family), new)
    replace_file(file, whole)
    print(f"{file}: {figures}.")
    if new.left_out:
        print(f"No room for {_count_of(len(new.left_out))}: {', '.join(new.left_out)}")
    if new.escaped:
        print(f"Marks of comments or fences in {_count_of(len(new.escaped))} were escaped: {', '.join(new.escaped)}")
    if missing := find_missing_members(whole, file):
        print(f"The front matter of {file} lacks {' and '.join(missing)}, which a skill must have. Add it by hand.")
    return 0


def _count_of(number: int, noun: str = "lesson") -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _review(options: argparse.Namespace) -> int:
    with _client() as erl:
        waiting = list(_all(erl, "/heuristics", status="proposed"))
        for number, lesson in enumerate(waiting, start=1):
            evidence = erl.api.get(f"/heuristics/{lesson['id']}")["evidence"]
            quotes = [f"Seen in run {seen['trajectory_id']}: {seen['quote']}" for seen in evidence]
            print("\n".join([f"[{number}/{len(waiting)}] {_describe(lesson)}", *quotes, ""]))
            if not options.list and not _decide(erl, lesson):
                return 0
    if not waiting:
        print("No lesson waits for a decision.")
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
        print(f"It is {decided['status']}.\n")
    return answer != "q"


def _loop(options: argparse.Namespace) -> int:
    plan = Plan(goal=options.goal, command=options.words, check=options.check, family=options.family)
    limits = Limits(max_iterations=options.max_iterations, timeout_seconds=options.timeout)
    with ERL() as erl:
        code = run_loop(
            erl, plan, limits, folder=options.state, say=lambda text: print(f"erl: {text}", file=sys.stderr, flush=True)
        )
    if waiting := len(erl.spool.waiting()):
        print(f"erl: {waiting} runs wait in {erl.spool.folder} until ERL answers.", file=sys.stderr)
    return code


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
    return 0


def _count(erl: ERL, status: str) -> int:
    return int(erl.api.get("/heuristics", status=status, limit=1)["pagination"]["total"])


def _all(erl: ERL, path: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Yield all rows of a list, page by page."""
    offset = 0
    while True:
        page = erl.api.get(path, **query, limit=PAGE_ROWS, offset=offset)
        yield from page["results"]
        offset += len(page["results"])
        if not page["results"] or offset >= page["pagination"]["total"]:
            return


def _describe(lesson: dict[str, Any]) -> str:
    said = [f"{name.replace('_', ' ').capitalize()}: {lesson[name]}" for name in WORDS if lesson.get(name)]
    return "\n".join([f"{lesson['id']} ({lesson.get('task_id') or 'every task'})", *said])
