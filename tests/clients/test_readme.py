"""The first screen of the client's README runs as it stands, against the real server and a scripted provider."""

import re
from pathlib import Path
from typing import Any

import pytest
from erl_client import ERL

from memory.runs.models import Trajectory
from tests.scripted_answers import answer
from tests.scripted_provider import ScriptedProvider

PAGE = (Path(__file__).resolve().parents[2] / "clients" / "python" / "README.md").read_text(encoding="utf-8")


def test_first_snippet_records_its_run(erl: ERL, monkeypatch: pytest.MonkeyPatch) -> None:
    snippet = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    names: dict[str, Any] = {}
    with ScriptedProvider(answer("It cannot be cancelled.", input_tokens=10, output_tokens=5)) as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        exec(compile(snippet, "README.md", "exec"), names)  # noqa: S102 - our own documentation
        with names["erl"], names["client"]:
            assert names["solve"]("Cancel EHGLP3.") == "It cannot be cancelled."
            assert names["erl"].flush()

    run = Trajectory.objects.get()
    assert (run.task, run.task_id, run.outcome, run.tokens) == ("Cancel EHGLP3.", "airline", "success", 15)
    assert run.retrieval_id is not None
    assert run.steps[-1]["action"] == {"name": "respond", "arguments": {"content": "It cannot be cancelled."}}
