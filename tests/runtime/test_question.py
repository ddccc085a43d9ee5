"""What lessons are looked for by when ERL runs an agent: the conversation, and the tools that the agent has."""

import pytest

from memory.index.heuristic_vectors import embed_heuristics
from memory.retrieval.models import Retrieval
from runtime.models.runs import Run
from tests.factories import make_heuristic, make_project
from tests.runtime.running import Script, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db


def test_an_agent_of_erl_is_asked_about_the_whole_conversation() -> None:
    project = make_project()
    trigger = "A passenger wants to upgrade a basic economy flight to business class"
    lesson = make_heuristic(project=project, status="approved", trigger=trigger)
    embed_heuristics([lesson.pk])
    agent = make_agent(project=project)
    first = make_run(agent, "Can I upgrade my basic economy flight to business class?")
    go_on(first, Script("What is your user ID?"))
    run = make_run(agent, "My user ID is mia_li_3668, please book it.", conversation=first.conversation)
    go_on(run, Script("Done."))
    answer = Retrieval.objects.latest("created_at")
    assert Run.objects.get(pk=run.pk).retrieval_id == answer.pk
    assert answer.injected_ids == [lesson.pk]
    assert answer.task.splitlines() == [
        "My user ID is mia_li_3668, please book it.",
        "Can I upgrade my basic economy flight to business class?",
        "What is your user ID?",
    ]
    assert answer.options["tools"] == [entry["name"] for entry in run.revision.tools]
