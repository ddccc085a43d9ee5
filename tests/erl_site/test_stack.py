"""The `stack` fixture other tests stand on."""

import urllib.request

import pytest

from erl_site.celery import app
from tests.stack import Stack


@pytest.mark.slow
def test_stack_web_and_worker_answer(stack: Stack) -> None:
    with urllib.request.urlopen(f"{stack.base_url}/admin/login/", timeout=10) as answer:
        assert answer.status == 200
    assert app.control.ping(timeout=2)
