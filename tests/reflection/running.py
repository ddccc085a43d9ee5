"""Run one reflection by a plan."""

from typing import Any

from django.db.models.functions import Now

from memory.projects.actors import Actor
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import run_reflection
from tests.factories import make_reflection
from tests.reflection.scripted import Plan, ScriptedModel, ScriptedReflector

Status = Reflection.Status
BY = Actor(label="user:ana")


def run(
    plan: Plan, reflection: Reflection | None = None, *, model: Any = None, reads_tries: bool = False
) -> Reflection:
    """Run a reflection by a plan and return its row."""
    reflection = reflection or make_reflection()
    reflector = ScriptedReflector(plan=plan, reads_tries=reads_tries)
    run_reflection(reflection.pk, owner="test", make_reflector=reflector, ask_model=model or ScriptedModel())
    return Reflection.objects.get(pk=reflection.pk)


def make_due(reflection: Reflection) -> None:
    Reflection.objects.filter(pk=reflection.pk).update(available_at=Now())
