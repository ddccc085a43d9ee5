"""The benches of evolution work, on a few calls and runs."""

import httpx
import pytest
from django.test import Client

from bench.evolution import rehearse_often
from bench.live_changes import start_trial, work

pytestmark = pytest.mark.nightly


@pytest.mark.django_db
def test_nothing_knocks_at_the_service_in_shadow() -> None:
    result = rehearse_often(calls=50)

    assert (result["calls"] >= 50, result["writes_refused"] > 0, result["connections"]) == (True, True, 0)


class InProcess(httpx.BaseTransport):
    """Answers in this process, in the test's transaction."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        answer = Client(headers=headers).generic(request.method, request.url.path, request.read(), "application/json")
        return httpx.Response(answer.status_code, content=answer.content)


def _connect(headers: dict[str, str]) -> httpx.Client:
    return httpx.Client(transport=InProcess(), base_url="http://testserver", headers=headers)


@pytest.mark.django_db
def test_bad_change_is_rolled_back_on_live_traffic() -> None:
    client, change = start_trial(_connect, seed=1, lift=-0.9, base=0.95)
    client.call("POST", "/deployment/canary", {"release": "2", "percent": 50})  # so that a few runs are enough

    ended = work(client, change)

    assert (ended.rung, ended.moved_by) == ("rolled_back", "policy:experiments")
    assert ended.runs < ended.planned
