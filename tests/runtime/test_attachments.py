"""Messages with images and files: what is taken, what the model is asked, and what can be read of them later."""

import base64
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from reflection.llm.base import ProviderError
from runtime.models.conversations import Message
from runtime.models.runs import Run
from runtime.runs import resume_run
from tests.runtime.running import BY, Script, go_on
from tests.runtime.test_api import Api

pytestmark = pytest.mark.django_db
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and its pixels").decode()
SOUND = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt ").decode()
IMAGE = {"media_type": "image/png", "data": PNG}


def send(api: Api, *attachments: dict[str, Any], **more: Any) -> Any:
    agent = api.post("agents", {"name": "support"}).json()
    agent = agent if "id" in agent else api.get("agents").json()["results"][0]
    return api.post(f"agents/{agent['id']}/runs", {"input": "What is this?", "attachments": [*attachments]} | more)


def test_model_is_asked_with_the_attachments_and_they_belong_to_the_prompt() -> None:
    api, script = Api(), Script("A dot.", "A dot.")
    started = send(api, IMAGE).json()
    run = Run.objects.get(pk=started["id"])
    go_on(run, script)

    messages = api.get(f"conversations/{started['conversation']}/messages").json()["results"]
    assert script.asked[0].messages[-1].attachments == (IMAGE,)
    assert messages[0]["attachments"] == [{"media_type": "image/png", "bytes": len(base64.b64decode(PNG))}]
    assert run.steps.get().prompt_tokens > 2_000


def test_page_says_which_files_came_with_a_message(admin_client: Client) -> None:
    started = send(Api(), IMAGE).json()

    page = admin_client.get(reverse("admin:agents_run_change", args=[started["id"]])).content.decode()

    assert "with a file: image/png" in page


def test_fork_keeps_attachments() -> None:
    api = Api()
    started = send(api, IMAGE).json()
    go_on(Run.objects.get(pk=started["id"]), Script("A dot."))

    fork = api.post(f"conversations/{started['conversation']}/fork").json()

    assert Message.objects.get(conversation=fork["id"], seq=1).attachments == [IMAGE]


@pytest.mark.parametrize(
    ("attachment", "place", "said"),
    [
        (IMAGE | {"media_type": "image/svg+xml"}, "media_type", "Send one of image/png"),
        ({"media_type": "image/webp", "data": SOUND}, "data", "do not begin as image/webp"),
        (IMAGE | {"data": "not base64!"}, "data", "in base64"),
        (IMAGE | {"data": PNG[:-3]}, "data", "in base64"),
        (IMAGE | {"media_type": "application/pdf"}, "data", "do not begin as application/pdf"),
        ({"media_type": "image/png"}, "data", ""),
        (IMAGE | {"data": ""}, "data", ""),
        (IMAGE | {"media_type": "Image/PNG"}, "media_type", "Send one of image/png"),
        ({"media_type": "text/plain", "data": "Y2Fm6Q=="}, "data", "in UTF-8"),
        ({"media_type": "text/plain", "data": "YQBi"}, "data", "without NUL"),
    ],
)
def test_what_is_no_attachment_is_refused(attachment: dict[str, Any], place: str, said: str) -> None:
    answer = send(Api(), attachment)

    assert answer.status_code == 400
    assert place in answer.content.decode()
    assert said in answer.content.decode()
    assert not Run.objects.exists()


def test_request_that_is_too_large_is_refused() -> None:
    answer = send(Api(), {"media_type": "text/plain", "data": "YWFh" * 300_000})

    assert (answer.status_code, Run.objects.count()) == (413, 0)


def test_text_that_does_not_fit_into_the_window_fails_before_the_model_is_asked() -> None:
    script = Script()
    started = send(Api(), {"media_type": "text/plain", "data": "YWFh" * 50_000}).json()
    run = Run.objects.get(pk=started["id"])
    go_on(run, script)

    assert (run.stop_reason, script.asked) == ("context_overflow", [])


def test_file_that_the_model_refused_is_not_sent_again() -> None:
    api, script = Api(), Script("What file?")
    started = send(api, IMAGE).json()
    refused = Run.objects.get(pk=started["id"])
    go_on(refused, Script(ProviderError("No image could be read.", transient=False, status=400)))
    after = send(api, conversation=started["conversation"], input="Go on without it.").json()
    go_on(Run.objects.get(pk=after["id"]), script)

    (asked,) = script.asked[0].messages[1:]
    assert asked.attachments == ()
    assert "the model did not take them" in asked.content


def test_run_that_is_resumed_sends_its_files_again() -> None:
    started = send(Api(), IMAGE).json()
    run = Run.objects.get(pk=started["id"])
    go_on(run, Script(ProviderError("The key is wrong.", transient=False, status=401)))
    script = Script("A dot.")
    go_on(resume_run(run, by=BY), script)

    assert script.asked[0].messages[-1].attachments == (IMAGE,)
