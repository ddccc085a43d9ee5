"""POST /trajectories with a transcript: any log in place of steps."""

import json

import pytest

from tests.api.recording import URL
from tests.real_runs import EXCERPTS

pytestmark = pytest.mark.django_db
SAMPLES = EXCERPTS / "transcripts"


def load(name):
    text = (SAMPLES / name).read_text()
    return [json.loads(line) for line in text.splitlines()] if name.endswith("l") else json.loads(text)


@pytest.mark.parametrize(
    ("name", "steps", "errors"),
    [
        ("anthropic_logged_call.json", 4, 1),
        ("langfuse_trace.json", 4, 1),
        ("otlp_genai.json", 4, 1),
        ("codex_rollout.jsonl", 4, 1),
        ("own_run.json", 3, 1),
    ],
)
def test_transcript_is_recorded(api_client, name, steps, errors):
    answer = api_client.post(URL, {"transcript": load(name), "task_id": "airline"})

    body = answer.json()
    assert answer.status_code == 201
    assert (body["step_count"], body["task_id"]) == (steps, "airline" if name != "own_run.json" else body["task_id"])
    assert sum(bool(step["error"]) for step in body["steps"]) == errors


def test_members_sent_beside_the_transcript_win(api_client):
    sent = {"transcript": load("own_run.json"), "outcome": "success", "agent": "mine", "metadata": {"a": 1}}

    body = api_client.post(URL, sent).json()

    assert (body["outcome"], body["score"], body["agent"], body["metadata"]) == ("success", None, "mine", {"a": 1})


@pytest.mark.parametrize("form", ["transcript", "messages", "steps"])
def test_what_is_left_out_is_named(api_client, form):
    messages = load("anthropic_messages.json")["messages"]

    body = api_client.post(URL, {form: messages}).json()

    (image, thinking) = body["metadata"]["left_out"]
    assert "[0].content[1]: the bytes of [image image/png, 70 bytes, sha256 " in image
    assert thinking.endswith("[3].content[0]: thinking that the provider encrypted")


@pytest.mark.parametrize(
    ("transcript", "said"),
    [
        ({"event": "login"}, "This is not in a known format"),
        ([{"role": "user", "content": "Hi"}, {"role": "robot"}], "messages[1].role must be one of"),
        ("text", "The log must be a JSON object or a list."),
        (load("langfuse_observations.json"), "Send one run at a time. This holds Langfuse: 7 observations, 2 runs."),
    ],
)
def test_transcript_that_is_not_one_run_is_400(api_client, transcript, said):
    answer = api_client.post(URL, {"transcript": transcript})

    assert answer.status_code == 400
    assert answer.json()["error"]["fields"]["/transcript"][0].startswith(said)


def test_transcript_beside_steps_is_400(api_client):
    answer = api_client.post(URL, {"task": "x", "transcript": load("own_run.json"), "steps": []})

    assert list(answer.json()["error"]["fields"]) == ["/transcript"]
