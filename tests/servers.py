"""Throw-away servers for the tests, named before Django reads its settings (loaded with `-p tests.servers`)."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

HOME = Path(tempfile.mkdtemp(prefix=f"erl-tests-{os.getpid()}-"))
os.environ.pop("CELERY_BROKER_URL", None)
os.environ["ERL_HOME"] = str(HOME)
os.environ["ERL_EMBEDDED_DURABLE"] = "0"


def pytest_unconfigure(config: pytest.Config) -> None:
    from erl_site.embedded import postgres

    postgres.stop(HOME / "postgres", mode="immediate")
    shutil.rmtree(HOME, ignore_errors=True)
