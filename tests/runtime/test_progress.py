"""A run that goes on says what it waits for, and its page and the API show what was asked without an answer."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from reflection.llm.base import ProviderError
from runtime.models.conversations import Conversation
from runtime.models.runs import Run
from runtime.progress import read_attempts, waits_for, with_progress
from tests.runtime.running import Script, go_on
from tests.runtime.test_api import Api, start

pytestmark = pytest.mark.django_db


class Slow(Script):
    """A model that takes too long once."""

    def chat(self, request: Any, *, on_text: Any = None) -> Any:
        if not self.asked:
            self.asked.append(request)
            raise ProviderError("The model did not answer in time.", transient=True, code="timeout")
        return super().chat(request, on_text=on_text)


@pytest.fixture
def api() -> Api:
    return Api()


def test_run_that_no_worker_has_taken_waits_for_one(api: Api) -> None:
    started = start(api)
    run = Run.objects.get(pk=started["id"])

    assert started["waits_for"] == "worker"
    go_on(run, Script("It is in Graz."))
    assert api.get(f"runs/{run.pk}").json()["waits_for"] == ""


def test_run_whose_model_took_too_long_waits_for_another_try_and_shows_the_attempt(
    api: Api, admin_client: Client
) -> None:
    run = Run.objects.get(pk=start(api)["id"])
    script = Slow("It is in Graz.")
    go_on(run, script)

    assert api.get(f"runs/{run.pk}").json()["waits_for"] == "later"
    go_on(run, script)
    (step,) = api.get(f"runs/{run.pk}/steps").json()["results"]
    page = admin_client.get(reverse("admin:agents_run_change", args=[run.pk])).content.decode()
    assert [each["code"] for each in step["attempts"]] == ["timeout"]
    assert [*read_attempts(run)] == [1]
    assert "The model did not answer in time." in page


def test_run_that_a_worker_asks_the_model_for_waits_for_its_model(api: Api) -> None:
    run, seen = Run.objects.get(pk=start(api)["id"]), []

    def look(_: Any) -> str:
        seen.append(waits_for(with_progress(Run.objects.all()).get(pk=run.pk)))
        return "It is in Graz."

    go_on(run, Script(look))

    assert seen == ["model"]


def test_page_says_what_the_run_waits_for_and_which_window_the_model_has(api: Api, admin_client: Client) -> None:
    run = Run.objects.get(pk=start(api, window_tokens=32_000)["id"])
    Conversation.objects.update(window_tokens=8_000)

    page = admin_client.get(reverse("admin:agents_run_change", args=[run.pk])).content.decode()

    assert "waits for a worker" in page
    assert "have 8000 tokens at most, of the 32000" in page
