"""The command `erl export`: approved lessons on the terminal, or in a file that agents read."""

import argparse
import shlex
from pathlib import Path
from typing import Any

from erl_client.api import ERLError
from erl_client.client import ERL
from erl_client.coding_agents.repositories import find_root
from erl_client.coding_agents.settings_files import find_target, show_path
from erl_client.lesson_files.blocks import (
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
from erl_client.logs import as_log
from erl_client.plain import as_json, show_hidden
from erl_client.whole_project import export_all

BUDGET_TOKENS = 1_500
WORDS = ("trigger", "guideline", "avoid", "not_when")


def add_parser(commands: Any) -> None:
    """Add the command to those of `erl`."""
    parser = commands.add_parser("export", help="print the approved lessons, or write them to a file that agents read")
    parser.add_argument("--family", default="", help="only those for a task family")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--to", type=Path, metavar="FILE", help="AGENTS.md, SKILL.md, any .md file, or .cursor/rules")
    parser.add_argument(
        "--budget", type=int, default=BUDGET_TOKENS, metavar="TOKENS", help="most tokens in the file (default: 1500)"
    )
    parser.add_argument("--runs", action="store_true", help="print the runs instead, as `erl import` takes them")
    parser.add_argument(
        "--all", type=Path, metavar="FOLDER", help="write the whole project into a folder that does not exist"
    )
    parser.add_argument("--check", action="store_true", help="only say whether the file has the newest lessons")
    parser.add_argument("--force", action="store_true", help="overwrite lessons that were edited by hand")
    parser.set_defaults(command=_export)


def _export(options: argparse.Namespace) -> int:
    with ERL(strict=True) as erl:
        if options.all:
            print(export_all(erl, options.all))
            return 0
        if options.runs:
            return _export_runs(erl, options.family)
        if options.to:
            return _export_to(erl, options)
        for lesson in erl.api.list_all("/heuristics", served="true"):
            words = {"id": lesson["id"], **lesson["served_revision"]}  # not the newest wording, which may be undecided
            if is_for(lesson, options.family):
                print(as_json(words) if options.json else describe(words) + "\n")
    return 0


def _export_runs(erl: ERL, family: str) -> int:
    """Print the finished runs, one JSON object per line."""
    rows = erl.api.list_all("/trajectories", **({"task_id": family} if family else {}))
    ids = [row["id"] for row in rows if not row["open"]]
    for run in as_log({id: erl.api.get(f"/trajectories/{id}") for id in reversed(ids)}):
        print(as_json(run))
    return 0


def _export_to(erl: ERL, options: argparse.Namespace) -> int:
    """Write the lessons into a file, or say whether it has the newest ones."""
    file = find_file(options.to, options.family)
    said = ["erl", "export", "--to", str(options.to)]
    said += ["--family", options.family] if options.family else []
    said += ["--budget", str(options.budget)] if options.budget != BUDGET_TOKENS else []
    command = shlex.join(said)
    content = file.read_bytes() if file.exists() else b""
    try:
        old = find_block(content, options.family)
    except UnreadableBlock as error:
        raise ERLError(f"{file}, {error}") from None
    if old and old.is_edited and (options.check or not options.force):
        raise ERLError(
            f"{file}: the lessons between the marker lines were edited by hand. Change them in ERL instead. "
            f"`{command} --force` overwrites the edit with the approved lessons."
        )
    new = write_block(
        erl.api.list_all("/heuristics", served="true"), family=options.family, budget_tokens=options.budget
    )
    figures = f"{count_of(len(new.taken))}, {new.tokens if new.taken else 0:,} of {options.budget:,} tokens"
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
    replace_file(find_target(file, find_root(file)), whole)
    print(f"{show_path(file)} now has the newest lessons: {figures}.")
    if new.left_out:
        print(f"No room for {count_of(len(new.left_out))}: {', '.join(new.left_out)}")
    if new.escaped:
        print(f"Comment or fence markers in {count_of(len(new.escaped))} were escaped: {', '.join(new.escaped)}")
    if missing := find_missing_members(whole, file):
        print(f"The front matter of {file} lacks {' and '.join(missing)}, which a skill must have. Add it by hand.")
    return 0


def count_of(number: int, noun: str = "lesson") -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe(lesson: dict[str, Any]) -> str:
    """Say a lesson in lines: its id and family, then its words."""
    said = [f"{name.replace('_', ' ').capitalize()}: {lesson[name]}" for name in WORDS if lesson.get(name)]
    family = " ".join((lesson.get("task_id") or "every task").split())
    return "\n".join([show_hidden(f"{lesson['id']} ({family})"), *map(show_indented, said)])


def show_indented(text: str) -> str:
    """Return a text of others for a terminal: nothing in it can be taken for another line of the command's."""
    return show_hidden(text).replace("\n", "\n    ")
