"""What the client's tests share: the real server over HTTP, a key, and a spool of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from erl_client import ERL

from memory.projects.models import Project
from tests.factories import make_api_key, make_project


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test read or write what belongs to the person who runs it."""
    monkeypatch.setenv("ERL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def project(transactional_db: None) -> Project:
    return make_project(reflect_on_record=False)


@pytest.fixture
def erl(project: Project, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ERL]:
    """The client of an agent, set up as its user would."""
    monkeypatch.setenv("ERL_URL", live_server.url)
    monkeypatch.setenv("ERL_API_KEY", make_api_key(project=project).token)
    with ERL() as client:
        yield client
