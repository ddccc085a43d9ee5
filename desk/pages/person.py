"""What is stored about a person: found, exported and erased, in the chosen project."""

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from desk.shell.chosen_project import chosen_project, offered_projects
from desk.shell.pages import page_context
from desk.shell.requests import get_actor
from memory.errors import InvalidInput
from memory.limits import MAX_NAME_CHARS
from memory.persons.query import Person, read_person
from memory.persons.services import erase_person, export_person, find_left, find_person
from memory.projects.access import has_role
from memory.projects.models import Project, ProjectMembership

ERASED_AT_ONCE = 200  # rows of each kind in one request


class PersonForm(forms.Form):
    """Whom to look for."""

    user_id = forms.CharField(
        required=False, max_length=MAX_NAME_CHARS, label="User id", help_text="As the client sends it in user_id."
    )
    texts = forms.CharField(
        required=False,
        label="Names, addresses, numbers",
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="One per line, as they were before redaction. Their placeholders are found, too.",
    )
    words = forms.CharField(
        required=False, max_length=MAX_NAME_CHARS, label="Words", help_text="A text has to contain all of them."
    )

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        texts = tuple(line.strip() for line in values.get("texts", "").splitlines() if line.strip())
        try:
            values["person"] = read_person(
                user_id=values.get("user_id", ""), texts=texts, words=values.get("words", "")
            )
        except InvalidInput as fault:
            raise forms.ValidationError([message for each in fault.fields.values() for message in each]) from None
        return values


def person_page(request: HttpRequest) -> Any:
    """Find a person. A POST, so that no address, history or log holds a name; `do` says what else is done."""
    project = _find_project(request)
    form = PersonForm(request.POST or None)
    shown: dict[str, Any] = {"form": form, "project": project, "is_asked": False}
    if project is not None and request.method == "POST" and form.is_valid():
        person: Person = form.cleaned_data["person"]
        match request.POST.get("do"):
            case "export":
                return _export(project, person)
            case "erase" if request.POST.get("confirmed"):
                return _erase(request, project, person)
        findings = find_person(project, person)
        elsewhere = find_left(project, person) if not findings else {}
        shown |= {"is_asked": True, "findings": findings, "elsewhere": elsewhere}
        shown["unconfirmed"] = request.POST.get("do") == "erase"
    return TemplateResponse(request, "admin/person.html", page_context(request, "A person", **shown))


def _find_project(request: HttpRequest) -> Project | None:
    """Return the project a person works in, or the only one; None where one has to be chosen."""
    if not request.user.has_perm("memory.erase_person"):
        raise PermissionDenied
    offered = offered_projects(request)
    project = chosen_project(request) or (offered[0] if len(offered) == 1 else None)
    if project is not None and not has_role(request.user, project.pk, ProjectMembership.Role.OPERATOR):
        raise PermissionDenied
    return project


def _export(project: Project, person: Person) -> StreamingHttpResponse:
    rows = export_person(project, person)
    lines = (json.dumps({"kind": kind, "row": row}, ensure_ascii=False) + "\n" for kind, row in rows)
    disposition = {"Content-Disposition": 'attachment; filename="person.jsonl"'}
    return StreamingHttpResponse(lines, content_type="application/x-ndjson", headers=disposition)


def _erase(request: HttpRequest, project: Project, person: Person) -> HttpResponse:
    erased = erase_person(project, person, by=get_actor(request), at_most=ERASED_AT_ONCE)
    went = ", ".join(f"{count:,} {kind}" for kind, count in erased.counts.items()) or "nothing"
    messages.success(request, f"Erased {went}, with what was made of them.")
    for reason in erased.refused:
        messages.error(request, f"Not erased: {reason}")
    if erased.left:
        left = ", ".join(f"{count:,} in {place}" for place, count in erased.left.items())
        messages.warning(request, f"Still there: {left}. Erase again, or edit the texts there.")
    return HttpResponseRedirect(reverse("admin:memory_erasure_change", args=[erased.receipt]))
