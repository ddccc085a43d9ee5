"""What language models answered and suggested about a person."""

from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet

from memory.persons.query import Person
from memory.persons.sources import PersonSource
from memory.projects.actors import Actor
from memory.projects.models import Project
from reflection.consolidation.models import Suggestion, SuggestionEvidence
from reflection.llm.models import ModelCall
from reflection.reflectors.models import Reflection


def _find_calls(project: Project, person: Person) -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(person.in_columns(ModelCall), project=project).order_by("pk")


def _find_suggestions(project: Project, person: Person) -> QuerySet[Suggestion]:
    quoted = SuggestionEvidence.objects.filter(person.in_columns(SuggestionEvidence), suggestion=OuterRef("pk"))
    said = person.in_columns(Suggestion) | Q(Exists(quoted))
    return Suggestion.objects.filter(said, project=project).order_by("pk")


def _find_reflections(project: Project, person: Person) -> QuerySet[Reflection]:
    return Reflection.objects.filter(person.in_columns(Reflection), project=project).order_by("pk")


def _delete(row: Any, person: Person, by: Actor) -> None:
    row.delete()


def _erase_call(call: ModelCall, person: Person, by: Actor) -> None:
    if call.job_id is None:
        call.delete()
    else:  # a job costs what its calls cost
        ModelCall.objects.filter(pk=call.pk).erase_words()


SOURCES = (
    PersonSource(kind="suggestions", label="suggestions", find=_find_suggestions, erase=_delete, show=str),
    PersonSource(kind="reflections", label="reflections", find=_find_reflections, erase=_delete, show=str),
    PersonSource(
        kind="model_calls",
        label="answers of language models",
        find=_find_calls,
        erase=_erase_call,
        show=lambda call: f"{call.created_at:%Y-%m-%d} {call.model}: {call.response}",
    ),
)
