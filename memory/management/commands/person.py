"""Find, export and erase what is stored about a person."""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from memory.database_owner import explain_missing_owner
from memory.errors import InvalidInput
from memory.management.commands.erase import vacuum_stored_text
from memory.management.options import add_project_argument, get_project, write_file
from memory.persons.leavers import rename_leaver
from memory.persons.query import Person, read_person
from memory.persons.services import erase_person, export_person, find_left, find_person
from memory.projects.actors import Actor
from memory.projects.models import Project

BY = Actor(label="command:person")


class Command(BaseCommand):
    help = (
        "Find, export or erase what is stored about a person: by the client's own user id, by texts as they were "
        "before redaction, or by words. A text is also found where it was replaced by its placeholder."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["find", "export", "erase"])
        add_project_argument(parser)
        parser.add_argument("--user-id", default="", help="the client's own id, as the client sends it")
        parser.add_argument(
            "--text",
            action="append",
            default=[],
            help="a name, address or number as it was before redaction; may be given several times",
        )
        parser.add_argument("--search", default="", metavar="WORDS", help="words; a text has to contain all of them")
        parser.add_argument(
            "--account", default="", metavar="USERNAME", help="with erase: close and rename the account of a leaver"
        )
        parser.add_argument("--to", default="-", metavar="FILE", help="where export writes JSON Lines; -: print them")
        parser.add_argument("--yes", action="store_true", help="erase without asking")
        parser.add_argument(
            "--vacuum", action="store_true", help="afterwards also remove what is left of it in the database's files"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["vacuum"] and (missing := explain_missing_owner()):
            raise CommandError(f"Nothing was erased. {missing}")
        if options["account"]:
            self._rename(options["account"], options["action"])
            return
        project = get_project(options["project"])
        try:
            texts = tuple(options["text"])
            person = read_person(user_id=options["user_id"], texts=texts, words=options["search"])
        except InvalidInput as error:
            raise CommandError(str(error)) from None
        match options["action"]:
            case "find":
                self._find(project, person)
            case "export":
                self._export(project, person, options["to"])
            case "erase":
                self._erase(project, person, yes=options["yes"], vacuum=options["vacuum"])

    def _rename(self, username: str, action: str) -> None:
        user = get_user_model()._default_manager.filter(username=username).first()
        if user is None or action != "erase":
            raise CommandError(f"There is no account {username!r}." if user is None else "Use --account with erase.")
        leaver = rename_leaver(user, by=BY)
        rows = sum(leaver.renamed.values())
        self.stdout.write(
            f"Closed the account, which is now called {leaver.pseudonym}, and renamed it in {rows:,} rows."
        )
        for column, count in leaver.kept.items():
            self.stdout.write(f"The name stays as evidence in {column}: {count:,} row{pluralize(count)}")

    def _find(self, project: Project, person: Person) -> int:
        findings = find_person(project, person)
        for finding in findings:
            self.stdout.write(f"{finding.count:>7,} {finding.label}")
            for example in finding.examples:
                self.stdout.write(f"          {example}")
        if not findings:
            self.stdout.write("Nothing about this person was found.")
        for place, count in find_left(project, person).items():
            self.stdout.write(f"          also in {place}: {count:,} row{pluralize(count)}")
        return sum(finding.count for finding in findings)

    def _export(self, project: Project, person: Person, place: str) -> None:
        rows = export_person(project, person)
        lines = [json.dumps({"kind": kind, "row": row}, ensure_ascii=False) for kind, row in rows]
        if place == "-":
            for line in lines:
                self.stdout.write(line)
            return
        write_file(Path(place), "".join(f"{line}\n" for line in lines))
        self.stdout.write(f"Wrote {len(lines):,} row{pluralize(len(lines))} to {place}.")

    def _erase(self, project: Project, person: Person, *, yes: bool, vacuum: bool) -> None:
        if not yes:
            if not self._find(project, person):
                return
            answer = input("Erase all of this? It cannot be undone. [y/N] ") if sys.stdin.isatty() else ""
            if answer.lower() not in ("y", "yes"):
                raise CommandError("Nothing was erased. Answer y on a terminal, or give --yes.")
        erased = erase_person(project, person, by=BY)
        went = ", ".join(f"{count:,} {kind}" for kind, count in erased.counts.items()) or "nothing"
        self.stdout.write(f"Erased {went}, with what was made of them. Receipt {erased.receipt}.")
        if vacuum:
            vacuum_stored_text()
            self.stdout.write("Removed what was left of them from the database's files.")
        self.stdout.write("Agents may hold more in their spools: run `erl forget` where they run.")
        for reason in erased.refused:
            self.stderr.write(f"Not erased: {reason}")
        for column, count in erased.left.items():
            self.stderr.write(f"Still there: {count:,} row{pluralize(count)} of {column}.")
        if not erased.is_complete:
            raise CommandError("Not everything was erased. Deal with what is named above, then run the command again.")
