"""Persons over HTTP. They are named in bodies, since addresses end up in the logs of proxies."""

from contextlib import closing
from dataclasses import asdict
from itertools import islice
from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.base import ApiView
from memory.api.schema import describe
from memory.persons.serializers import (
    MAX_ROWS,
    PersonErasedAnswer,
    PersonExportInput,
    PersonExportPage,
    PersonFoundAnswer,
    PersonInput,
)
from memory.persons.services import erase_person, export_person, find_left, find_person
from memory.projects.models import ApiKey

Scope = ApiKey.Scope


class PersonView(ApiView):
    """Needs the scopes of everything that a person may be named in. Keeps no key: its record would name the person."""

    keeps_keys = False
    required_scopes = {"POST": Scope.TRAJECTORIES_READ}
    further_scopes: ClassVar[tuple[str, ...]] = (Scope.MEMORY_READ, Scope.HEURISTICS_READ, Scope.RUN)


class PersonFindView(PersonView):
    @describe(
        "findPerson",
        tag="persons",
        summary="Find what is about a person",
        description="By your own user id, by texts as they were before redaction, or by words: how many rows of each "
        "kind, with examples. Nothing is changed.",
        request=PersonInput,
        responses=PersonFoundAnswer,
    )
    def post(self, request: Request) -> Response:
        person = PersonInput.from_body(self.body).person()
        results = [asdict(finding) for finding in find_person(self.project, person)]
        return Response({"results": results, "elsewhere": find_left(self.project, person)})


class PersonExportView(PersonView):
    @describe(
        "exportPerson",
        tag="persons",
        summary="Read everything about a person",
        description="Every row about a person as it is stored, a page at a time.",
        request=PersonExportInput,
        responses=PersonExportPage,
    )
    def post(self, request: Request) -> Response:
        sent = PersonExportInput.from_body(self.body)
        person = sent.person()
        # A page ends before the rows do, and the cursor of the database with it.
        with closing(export_person(self.project, person)) as rows:
            shown = list(islice(rows, sent.offset, sent.offset + sent.limit))
        total = sum(finding.count for finding in find_person(self.project, person))
        page = {"limit": sent.limit, "offset": sent.offset, "total": total}
        return Response({"results": [{"kind": kind, "row": row} for kind, row in shown], "pagination": page})


class PersonEraseView(PersonView):
    required_scopes = {"POST": Scope.TRAJECTORIES_WRITE}
    further_scopes = (Scope.MEMORY_WRITE, Scope.HEURISTICS_WRITE, Scope.RUN)

    @describe(
        "erasePerson",
        tag="persons",
        summary="Erase a person",
        description=f"Erases what findPerson finds, with all that was made of it, and writes a receipt. One request "
        f"erases at most {MAX_ROWS} rows of each kind: send it again until `complete` is true. This cannot be undone.",
        request=PersonInput,
        responses=PersonErasedAnswer,
    )
    def post(self, request: Request) -> Response:
        person = PersonInput.from_body(self.body).person()
        done = erase_person(self.project, person, by=self.actor, at_most=MAX_ROWS)
        answer = {"receipt": done.receipt, "erased": done.counts, "refused": done.refused, "left": done.left}
        return Response(answer | {"complete": done.is_complete})
