"""docs/api.md: its examples work when they are pasted one after the other."""

import re
import shlex
from pathlib import Path
from string import Template

import httpx
import pytest

from memory.projects.models import ApiKey
from tests.factories import make_api_key

GUIDE = (Path(__file__).parents[2] / "docs" / "api.md").read_text()
COMMANDS = [block for block in re.findall(r"```bash\n(.*?)```", GUIDE, re.DOTALL) if block.startswith("curl")]


class Shell:
    """Runs the curl commands of the guide, keeping the ids that later ones need."""

    def __init__(self, *, url: str, token: str) -> None:
        self.names = {"ERL_URL": url, "ERL_API_KEY": token}

    def run(self, command: str) -> int:
        """Run one command and return the status of its answer."""
        words = shlex.split(Template(command.replace("\\\n", " ")).substitute(self.names))
        options = list(zip(words[2::2], words[3::2], strict=True))
        headers = dict(value.split(": ", 1) for option, value in options if option == "-H")
        body = next((value for option, value in options if option == "-d"), None)
        response = httpx.request("POST" if body else "GET", words[1], headers=headers, content=body, timeout=60)
        self.keep(words[1], response)
        return response.status_code

    def keep(self, url: str, response: httpx.Response) -> None:
        if url.endswith("/retrieve"):
            self.names["RETRIEVAL_ID"] = response.json()["retrieval_id"]
        elif url.endswith("/trajectories"):
            self.names["TRAJECTORY_ID"] = response.json()["id"]
        elif url.endswith("/heuristics"):
            self.names["HEURISTIC_ID"] = response.json()["id"]
            self.names["CONTENT_SHA256"] = response.json()["content_sha256"]


@pytest.mark.slow
def test_guide_commands_succeed_one_after_the_other(stack):
    shell = Shell(url=stack.base_url, token=make_api_key().token)

    statuses = [shell.run(command) for command in COMMANDS]

    assert statuses == [200, 200, 201, 201, 200, 200, 200, 201, 200, 200, 200, 200, 200, 200, 201]


@pytest.mark.slow
def test_guide_python_runs_against_the_server(stack, monkeypatch, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    monkeypatch.setenv("ERL_URL", stack.base_url)
    monkeypatch.setenv("ERL_API_KEY", make_api_key().token)

    exec(compile(program, "docs/api.md", "exec"), {})  # noqa: S102 - our own documentation

    assert capsys.readouterr().out.endswith(" success\n")


def test_guide_names_every_scope():
    served = set(ApiKey.Scope.values) - {ApiKey.Scope.EVALUATE}

    assert {scope for scope in served if f"`{scope}`" not in GUIDE} == set()
