"""The newest release of each framework, traced as its users do, against the real server and a scripted provider.

Each program of `tests/clients/frameworks` runs in an environment of its own, which uv resolves from PyPI together with
`erl-client[otel]`.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from erl_client import ERL

from memory.runs.models import Trajectory
from tests.clients.agent_answers import (
    ANSWER,
    LOOK,
    SAY,
    TASK,
    chat_calls,
    chat_says,
    chat_streams,
    chat_streams_call,
)
from tests.clients.conftest import actions, acts
from tests.scripted_answers import Behaviour
from tests.scripted_provider import ScriptedProvider

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]  # what is newest has to be downloaded first

CLIENT = Path(__file__).resolve().parents[2] / "clients" / "python"
PROGRAMS = Path(__file__).parent / "frameworks"
CHAT = (chat_calls(), chat_says())
OPENINFERENCE = "openinference-instrumentation-"
FINAL = {"name": "final_answer", "arguments": {"answer": ANSWER}}
# DSPy's models call tools in text
DSPY = (
    chat_says(
        "[[ ## next_thought ## ]]\nThe fare decides.\n\n[[ ## next_tool_name ## ]]\nget_reservation\n\n"
        '[[ ## next_tool_args ## ]]\n{"id": "EHGLP3"}\n\n[[ ## completed ## ]]'
    ),
    chat_says(
        "[[ ## next_thought ## ]]\nDone.\n\n[[ ## next_tool_name ## ]]\nfinish\n\n"
        "[[ ## next_tool_args ## ]]\n{}\n\n[[ ## completed ## ]]"
    ),
    chat_says(f"[[ ## reasoning ## ]]\nIt is basic.\n\n[[ ## answer ## ]]\n{ANSWER}\n\n[[ ## completed ## ]]"),
)
DSPY_ANSWER = f"[[ ## reasoning ## ]]\nIt is basic.\n\n[[ ## answer ## ]]\n{ANSWER}\n\n[[ ## completed ## ]]"


@dataclass(frozen=True)
class Framework:
    packages: tuple[str, ...]
    script: tuple[Behaviour, ...] = CHAT
    actions: tuple[Any, ...] = (LOOK, SAY)
    variables: tuple[tuple[str, str], ...] = ()


STRANDS = Framework(("strands-agents[openai,otel]",), (chat_streams_call(), chat_streams(ANSWER)))
FRAMEWORKS = {
    "smolagents": Framework(
        ("smolagents[openai]", f"{OPENINFERENCE}smolagents"),
        (chat_calls(), chat_calls("final_answer", "call_2", answer=ANSWER)),
        (LOOK, FINAL),
    ),
    "google_adk": Framework(("google-adk", "litellm", f"{OPENINFERENCE}google-adk")),
    "autogen": Framework(
        (
            "autogen-agentchat",
            "autogen-ext[openai]",
            f"{OPENINFERENCE}autogen-agentchat",
            f"{OPENINFERENCE}openai",
        )
    ),
    "crewai": Framework(("crewai", f"{OPENINFERENCE}crewai", f"{OPENINFERENCE}openai")),
    "agno": Framework(("agno", "openai", f"{OPENINFERENCE}agno")),
    "strands": STRANDS,
    "dspy": Framework(
        ("dspy", f"{OPENINFERENCE}dspy"),
        DSPY,
        (
            LOOK,
            {"name": "finish", "arguments": {}},
            {"name": "respond", "arguments": {"content": DSPY_ANSWER}},
        ),
    ),
}


def uv_run(*command: str, packages: tuple[str, ...], **variables: str) -> str:
    """Run a command with the newest of some packages, and return what it wrote to the standard output."""
    options = [option for package in packages for option in ("--with", package)]
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "CREWAI_DISABLE_TELEMETRY": "true", "OPENAI_API_KEY": "k"}
    whole = ["uv", "run", "--quiet", "--isolated", "--no-project", "--python", f"3.{sys.version_info.minor}"]
    done = subprocess.run(
        [*whole, *options, *command],
        cwd=PROGRAMS,
        env={**os.environ, **quiet, **variables},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def record(name: str, packages: tuple[str, ...], erl: ERL, provider: ScriptedProvider, **variables: str) -> Trajectory:
    """Run a program, and return its run."""
    # --with-editable: uv would take an older build of the client out of its cache
    command = ("--with-editable", f"{CLIENT}[otel]", "python", f"{name}_agent.py")
    uv_run(*command, packages=packages, OPENAI_BASE_URL=provider.openai_url, **variables)
    assert erl.flush(60)  # what the program left in the spool
    return Trajectory.objects.get()


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_run_of_the_newest_framework_is_recorded(name: str, erl: ERL, provider: ScriptedProvider) -> None:
    framework = FRAMEWORKS[name]
    provider.script(*framework.script)

    run = record(name, framework.packages, erl, provider)

    assert (run.task, run.task_id, run.outcome, run.outcome_source) == (TASK, "airline", "success", "test")
    assert actions(run) == list(framework.actions)
    assert "basic economy" in acts(run)[0]["observation"]
    assert [step["error"] for step in run.steps if step["error"]] == []


def test_strands_with_the_latest_conventions_is_recorded(erl: ERL, provider: ScriptedProvider) -> None:
    provider.script(*STRANDS.script)

    run = record("strands", STRANDS.packages, erl, provider, OTEL_SEMCONV_STABILITY_OPT_IN="gen_ai_latest_experimental")

    assert (run.outcome, actions(run)) == ("success", [LOOK, SAY])
    assert "basic economy" in acts(run)[0]["observation"]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_extra_takes_no_framework_back(name: str) -> None:
    packages = FRAMEWORKS[name].packages

    def resolve(*more: str) -> set[str]:
        return set(re.findall(r"^\S+==\S+", compiled((*packages, *more)), re.MULTILINE))

    assert resolve() <= resolve(f"erl-client[otel] @ {CLIENT.as_uri()}")


def compiled(packages: tuple[str, ...]) -> str:
    """Return the versions that uv chooses for some packages."""
    command = ["uv", "pip", "compile", "--quiet", "--no-header", "-"]
    done = subprocess.run(command, input="\n".join(packages), capture_output=True, text=True, timeout=300, check=True)
    return done.stdout


def test_oldest_sdk_that_the_extra_allows_is_read(erl: ERL, provider: ScriptedProvider) -> None:
    (oldest,) = re.findall(r'"opentelemetry-sdk>=([\d.]+)', (CLIENT / "pyproject.toml").read_text(encoding="utf-8"))

    run = record("plain_spans", (f"opentelemetry-sdk=={oldest}",), erl, provider)

    assert (run.outcome, actions(run), acts(run)[0]["observation"]) == ("success", [LOOK, SAY], "basic economy")


@pytest.mark.parametrize(
    ("instrumentation", "content"),
    [
        # 2.4b0 needs this older release, and does not say so
        (("opentelemetry-instrumentation-openai-v2", "opentelemetry-util-genai<1"), "true"),
        (("opentelemetry-instrumentation-genai-openai",), "event_only"),
    ],
    ids=["an event for each message", "an event for each call"],
)
def test_log_events_of_the_official_instrumentation_complete_its_spans(
    instrumentation: tuple[str, ...], content: str, erl: ERL, provider: ScriptedProvider
) -> None:
    provider.script(*CHAT)
    exporter = ("opentelemetry-distro", "opentelemetry-exporter-otlp-proto-http")

    uv_run(
        "opentelemetry-instrument",
        "python",
        "instrumented_openai.py",
        packages=("openai", "httpx", *exporter, *instrumentation),
        OPENAI_BASE_URL=provider.openai_url,
        OTEL_EXPORTER_OTLP_ENDPOINT=f"{os.environ['ERL_URL']}/otlp",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        OTEL_EXPORTER_OTLP_HEADERS=f"Authorization=Bearer {os.environ['ERL_API_KEY']}",
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=content,
    )

    run = Trajectory.objects.get()
    assert (run.task, run.is_open, actions(run)) == (TASK, False, [LOOK, SAY])
    assert acts(run)[0]["observation"] == "basic economy"
