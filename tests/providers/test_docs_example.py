"""The agent of the docs' first example, on each provider."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from runtime.models.runs import Run
from tests.factories import bearer, make_api_key, make_project
from tests.providers.imitation import Turn
from tests.providers.laboratory import Laboratory
from tests.runtime.running import go_on
from tests.stack import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.django_db, pytest.mark.slow]

EXAMPLE = re.compile(r"/api/v1/agents -H .*? -d '(\{.*?\})'", re.S)
ANSWERS = (
    Turn(text="Let me see.", calls=(("archival_search", {"query": "order 1"}), ("get_lessons", {"task": "orders"}))),
    Turn(calls=(("send_message", {"message": "It is in Graz."}),)),
    Turn(calls=(("archival_insert", {"text": "The user asked about order 1."}),)),
    Turn(text="Anything else?"),
)


@pytest.mark.parametrize("streamed", [True])
def test_example_of_the_docs(lab: Laboratory) -> None:
    example = EXAMPLE.search((ROOT / "docs" / "agents.md").read_text())
    assert example is not None
    key, client = make_api_key(project=make_project()), Client()
    sent: dict[str, Any] = {"content_type": "application/json", "headers": bearer(key.token)}
    agent = client.post("/api/v1/agents", json.loads(example[1]), **sent).json()
    ends = []
    for _ in range(2):  # the second run starts another conversation
        lab.imitation.say(*ANSWERS)
        started = client.post(f"/api/v1/agents/{agent['id']}/runs", {"input": "Where is order 1?"}, **sent).json()
        run = Run.objects.get(pk=started["id"])
        go_on(run, lab.provider)
        ends.append([run.stop_reason, *run.messages.filter(is_reply=True).values_list("content", flat=True)])

    assert ends == [["end_turn", "It is in Graz.", "Anything else?"]] * 2
