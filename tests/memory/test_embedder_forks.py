"""What a web process has before its first request: the embedding model of its parent."""

import subprocess
import sys

import pytest

FORK = """
import os
import numpy as np
from django.conf import settings
settings.configure(ERL_EMBEDDER="minilm")
from memory.embeddings.registry import get_embedder
there = get_embedder()
vector = there.embed(["a task"])
{before}
if (child := os.fork()) == 0:
    os._exit(get_embedder() is there and np.array_equal(get_embedder().embed(["a task"]), vector))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
OTHER_THREAD = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()"


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
