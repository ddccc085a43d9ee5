"""What a process does before its first request."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from erl_site.warming import _make_shared, warm_unless_asked

FORK = """
import os
import numpy as np
from django.conf import settings
settings.configure(ERL_EMBEDDER="minilm", ERL_EMBEDDER_INTEGERS=False)
from memory.embeddings.registry import get_embedder
there = get_embedder()
vector = there.embed(["a task"])
{before}
if (child := os.fork()) == 0:
    os._exit(get_embedder() is there and np.array_equal(get_embedder().embed(["a task"]), vector))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
OTHER_THREAD = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.mark.django_db
def test_warming_up_sends_no_statement(django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        _make_shared.__wrapped__()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("requests", "kept_seconds", "is_connected"), [(0, 600, True), (1, 600, False), (0, 0, False)])
def test_thread_of_a_process_that_nobody_asked_is_connected(
    requests: int, kept_seconds: int, is_connected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", kept_seconds)
    with ThreadPoolExecutor(max_workers=1) as pool:
        warm_unless_asked(SimpleNamespace(nr=requests, tpool=pool))

        assert pool.submit(lambda: connection.connection is not None).result() is is_connected
        pool.submit(lambda: connection.close()).result()


@pytest.mark.parametrize(("before", "kept"), [("", b"1"), (OTHER_THREAD, b"0")])
def test_child_keeps_the_model_of_a_parent_without_other_threads(before: str, kept: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK.format(before=before)],
        env={"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.strip() == kept
