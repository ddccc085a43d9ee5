"""Planted secrets, followed through all that ERL does with a run: none is anywhere afterwards (D7, F18)."""

import json
import logging
from typing import Any

import pytest
import redis
from django.test import Client
from rest_framework.test import APIClient

from erl_site.embedded import valkey
from memory.heuristics.models import Heuristic
from memory.projects.models import ProjectMembership
from memory.redaction import redact
from memory.runs.models import Trajectory
from reflection.jobs.execution import Outcome
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.reflectors.reflections import run_reflection
from tests.chaos.profile import SEED, pick, report
from tests.contract.test_redaction_storage import every_stored_text
from tests.e2e.every_page import list_pages, row_pages
from tests.factories import bearer, make_api_key, make_member
from tests.memory.synthetic_secrets import Planted, plant_secrets
from tests.memory.test_redaction import PUBLIC_RUNS
from tests.reflection.scripted import make_completion
from tests.scripted_answers import lesson
from tests.servers import HOME

pytestmark = pytest.mark.django_db(transaction=True)

PER_KIND = pick(1, 15)
IN_A_RUN = 10


def make_run(number: int, planted: list[Planted]) -> dict[str, Any]:
    texts = [each.text for each in planted]
    return {
        "task": f"Case {number}: {texts[0]}",
        "summary": " ".join(texts),
        "outcome": "failure",
        "mistakes": [texts[-1]],
        "metadata": {"notes": texts, texts[0]: 1},
        "steps": [
            {
                "thought": text,
                "action": {"name": "send", "arguments": {"body": text}},
                "observation": text,
                "error": text,
            }
            for text in texts
        ],
    }


def survivors(planted: list[Planted], text: str) -> list[str]:
    """Return the kinds of what can still be read, as it was or as JSON writes it."""
    return [each.kind for each in planted if each.needle in text or json.dumps(each.needle)[1:-1] in text]


def test_planted_secrets_are_nowhere(settings: Any, caplog: pytest.LogCaptureFixture, broker: str) -> None:
    caplog.set_level(logging.DEBUG)
    settings.ERL_REFLECTOR, settings.ERL_LLM_PROVIDER, settings.ERL_LLM_MODEL = "llm", "openai", "m"
    settings.ERL_EMBEDDER = "none"
    planted = plant_secrets(seed=SEED, per_kind=PER_KIND)
    new, asked = make_api_key(), []
    client = APIClient(headers=bearer(new.token))
    groups = [planted[start : start + IN_A_RUN] for start in range(0, len(planted), IN_A_RUN)]
    for number, group in enumerate(groups):
        headers = {"Idempotency-Key": f"run-{number}"}
        answer = client.post("/api/v1/trajectories", make_run(number, group), format="json", headers=headers)
        assert answer.status_code == 201, answer.content
        client.post("/api/v1/retrieve", {"task": group[0].text}, format="json")

    def repeat_the_question(step: str, request: ChatRequest) -> ChatAnswer:
        asked.append(f"{request.system}\n{request.user}")
        words = lesson(trigger=request.user[-200:], action=request.user[:200], not_when="", tools=[])
        return make_completion(text=json.dumps(words))

    while run_reflection(owner="test", ask_model=repeat_the_question).outcome != Outcome.NOTHING:
        pass

    with redis.Redis(unix_socket_path=str(valkey.socket_path(HOME / "valkey"))) as at_broker:
        messages = b" ".join(at_broker.dump(key) or b"" for key in at_broker.keys("*")).decode("latin-1")
    left = {
        "database": survivors(planted, every_stored_text()),
        "broker": survivors(planted, messages),
        "logs": survivors(planted, caplog.text),
        "model": survivors(planted, "\n".join(asked)),
        "pages": survivors(planted, _every_page()),
    }
    wrong = sum(bool(set(redact(run).counts) - {"email"}) for run in PUBLIC_RUNS)
    report(
        "F18",
        planted=len(planted),
        runs=len(groups),
        asked_of_the_model=len(asked),
        **{f"left_in_{place}": len(kinds) for place, kinds in left.items()},
        public_runs=len(PUBLIC_RUNS),
        of_them_changed_wrongly=wrong,
    )
    assert {place: kinds[:5] for place, kinds in left.items()} == {place: [] for place in left}
    assert len(asked) >= len(groups)
    assert wrong <= len(PUBLIC_RUNS) / 100


def test_a_secret_in_a_page_would_be_found() -> None:
    planted = plant_secrets(seed=SEED, per_kind=1)[:1]
    run = make_api_key().api_key.project.trajectories.create(task=planted[0].text)

    assert run.pk
    assert survivors(planted, _every_page()) == [planted[0].kind]


def _every_page() -> str:
    """Return the HTML of every page of the admin, as a person who may see all is shown it."""
    user = make_member("root", is_superuser=True)
    ProjectMembership.objects.create(user=user, role="operator")
    browser = Client()
    browser.force_login(user)
    paths = list_pages(all_rows=True)
    heuristics, run = list(Heuristic.objects.all()[:5]), Trajectory.objects.first()
    if heuristics and run is not None:
        paths += row_pages(heuristics=heuristics, trajectory=run)
    answers = [browser.get(path, follow=True) for path in paths]
    assert {answer.status_code for answer in answers} == {200}
    return "\n".join(answer.content.decode() for answer in answers)
