"""Workers that are killed while models think, on all providers at once: what was thought before still comes back."""

import json
from threading import Event

import pytest

from memory.passages.models import Passage
from runtime.models.runs import Run
from tests.chaos.jobs import jobs
from tests.factories import make_project
from tests.providers.catalogue import IMITATIONS
from tests.providers.imitation import Hold, Turn
from tests.providers.laboratory import Imitations
from tests.runtime.running import make_agent, make_run
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(600)]


def remember(text: str) -> Turn:
    return Turn(calls=(("archival_insert", {"text": text}),))


def test_conversations_go_on_after_kill_9_between_the_steps(imitations: Imitations) -> None:
    project, killed = make_project(), Event()
    held = [Hold(begun=Event(), until=killed) for _ in IMITATIONS]
    models = [imitation() for imitation in IMITATIONS]
    for model, hold in zip(models, held, strict=True):
        model.say(remember("one"), hold, remember("two"), Turn(text="Remembered."))
    providers = {
        f"number{index}": {"kind": model.kind, "base_url": imitations.add(model), "api_key": "a-key-of-nobody"}
        for index, model in enumerate(models)
    }
    with jobs(environment={"ERL_LLM_PROVIDERS": json.dumps(providers)}) as made:
        for name, model in zip(providers, models, strict=True):
            tools, named = ["archival_insert"], f"{name}:{model.model}"
            make_run(make_agent(project=project, name=name, tools=tools, model=named))
        made.stack.start_worker()
        wait_until(lambda: all(hold.begun.is_set() for hold in held), seconds=240)
        made.stack.kill("worker")
        killed.set()
        made.stack.start_worker()
        wait_until(lambda: not Run.objects.live().exists(), seconds=240)

    ends = dict(Run.objects.values_list("agent__name", "stop_reason"))
    assert ends == dict.fromkeys(providers, "end_turn")
    assert [model.broken_rules for model in models] == [[] for _ in models]
    assert Passage.objects.filter(text="one").count() == Passage.objects.filter(text="two").count() == len(models)
