"""GET /export and its pages, and `erl export --all`, which reads them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from erl_client.cli import main
from rest_framework.test import APIClient

from memory.projects.models import Project
from tests.factories import make_api_key, make_trajectory
from tests.whole_project import make_whole_project

EXPORT = "/api/v1/export"
RUNS = f"{EXPORT}/memory_trajectory"


@pytest.fixture
def _erl(transactional_db: None, live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERL_URL", live_server.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ERL_SPOOL", str(tmp_path / "spool"))


@pytest.mark.usefixtures("_erl")
def test_the_client_writes_the_same_files_as_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_whole_project()
    monkeypatch.setenv("ERL_API_KEY", make_api_key(project=project).token)
    call_command("export_memory", str(tmp_path / "command"), "--format=project", stderr=io.StringIO())

    assert main(["export", "--all", str(tmp_path / "client")]) == 0

    written = {path.name: path.read_bytes() for path in (tmp_path / "client").iterdir()}
    expected = {path.name: path.read_bytes() for path in (tmp_path / "command").iterdir()}
    assert json.loads(written.pop("manifest.json")) == json.loads(expected.pop("manifest.json"))
    assert written == expected


def test_pages_hold_each_row_of_the_project_once(
    api_client: APIClient, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.transfer.pages.PAGE_ROWS", 2)
    runs = sorted(str(make_trajectory(project=project).pk) for _ in range(3))
    make_trajectory()

    first = api_client.get(RUNS).json()
    second = api_client.get(RUNS, {"after": first["next"]}).json()

    assert [json.loads(line)["id"] for line in first["lines"] + second["lines"]] == runs
    assert second["next"] is None


def test_export_counts_the_rows_of_the_project(api_client: APIClient, project: Project) -> None:
    make_trajectory(project=project)
    make_trajectory()

    answer = api_client.get(EXPORT).json()

    assert {"memory_trajectory": 1}.items() <= {table["table"]: table["rows"] for table in answer["tables"]}.items()
    assert answer["project"]["slug"] == project.slug


@pytest.mark.parametrize("after", ["x", "[]", "[1]", '["no id"]', "{}", "null"])
def test_a_place_that_is_none_is_400(api_client: APIClient, after: str) -> None:
    answer = api_client.get(RUNS, {"after": after})

    assert (answer.status_code, answer.json()["error"]["fields"].keys()) == (400, {"after"})


@pytest.mark.parametrize("table", ["memory_apikey", "auth_user", "nothing"])
def test_a_table_that_is_not_exported_is_404(api_client: APIClient, table: str) -> None:
    assert api_client.get(f"{EXPORT}/{table}").status_code == 404
