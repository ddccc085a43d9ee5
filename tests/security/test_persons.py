"""A person is found, given out and erased, whatever kind of row is about them; nothing of them is left anywhere."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from erl_site.embedded import valkey
from memory.discussion.models import Comment
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.persons.leavers import rename_leaver
from memory.persons.query import read_person
from memory.persons.services import erase_person, find_person
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from memory.runs.models import SystemPrompt, Trajectory
from memory.trust.audit import verify_audit
from memory.trust.models import AuditEntry, Erasure
from runtime.models.conversations import Conversation
from tests.api.conftest import make_client
from tests.factories import approve_as_read, make_api_key, make_heuristic, make_member, make_project, make_trajectory
from tests.runtime.running import Script, check_deferred, go_on, make_agent, make_run
from tests.security.test_erasure import every_row, read_files
from tests.servers import HOME

pytestmark = pytest.mark.django_db
BY = Actor(label="user:ops")
ANA, NAME = "ana@example.org", "Ana Kowalczyk"


@pytest.fixture
def project() -> Project:
    return make_project(slug="shop", reflect_on_record=False)


@pytest.fixture
def client(project: Project) -> APIClient:
    return make_client(make_api_key(project=project).token)


def post(client: APIClient, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"/api/v1/{path}", body)
    assert answer.status_code < 300, answer.content
    return dict(answer.json())


@pytest.fixture
def shop(project: Project, client: APIClient) -> Project:
    """200 runs, 12 of which are about Ana, what agents and reviewers wrote about her, and what is not about her."""
    for number in range(188):
        make_trajectory(project=project, task=f"Cancel order {number} of bob@example.org")
    for number in range(8):
        post(client, "trajectories", task=f"Cancel order A{number} of {ANA}", user_id="c-17", reflect=False)
    for number in range(4):
        steps = [{"thought": f"I write to {ANA}.", "observation": "sent"}]
        body = {"task": f"Answer letter {number}", "steps": steps}
        key = {"Idempotency-Key": f"ana-{number}"}
        assert client.post("/api/v1/trajectories", body, headers=key).status_code == 201
    post(client, "retrieve", task=f"Cancel the order of {ANA}")
    for text in (f"{NAME} wants no calls.", f"Write to {ANA}.", "Likes tea."):
        post(client, "passages", text=text, user_id="c-17")
    post(client, "passages", text="Parcels leave at noon.")
    block = post(client, "blocks", label="customers", value=f"Bob pays late.\n{NAME} pays early.")
    post(client, f"blocks/{block['id']}/append", text=f"{NAME} moved to Lisbon.")
    agent = make_agent(project=project, blocks=({"label": "customers", "block": block["id"]},))
    run = make_run(agent, f"I am {NAME}, write to {ANA}", user_id="c-17")
    go_on(run, Script(f"Gladly, {NAME}."))
    go_on(make_run(agent, "What is new?"), Script("Nothing."))
    lesson = make_heuristic(project=project, trigger="When an order is late", guideline="Apologise.")
    Comment.objects.create(
        project=project, kind="lesson", object_id=lesson.pk, text=f"As with {NAME}, no?", written_by="user:rae"
    )
    make_heuristic(project=project, trigger=f"When {NAME} asks", guideline="Be quick.")
    approve_as_read(lesson, by=BY, reason=f"{NAME} was right.")
    return project


def run_command(action: str, *options: str) -> str:
    out = StringIO()
    call_command(
        "person", action, "--project", "shop", "--user-id", "c-17", "--text", ANA, "--text", NAME, *options, stdout=out
    )
    return out.getvalue()


def test_person_is_found_by_id_name_and_address_before_redaction(shop: Project) -> None:
    person = read_person(user_id="c-17", texts=(ANA, NAME))

    counts = {finding.kind: finding.count for finding in find_person(shop, person)}

    expected = {"runs": 13, "conversations": 1, "passages": 3, "blocks": 1, "comments": 1, "reviews": 1, "lessons": 1}
    assert counts.items() >= expected.items()
    assert ANA not in every_row().replace(f"write to {ANA}", "")  # but in the conversation, all had the placeholder


def test_erased_person_is_nowhere_and_nothing_else_goes(shop: Project) -> None:
    placeholder = Trajectory.objects.filter(user_id="c-17").first().task.rpartition(" ")[2]  # type: ignore[union-attr]
    kept = Trajectory.objects.filter(task__contains="Cancel order", user_id="").count()

    run_command("erase", "--yes")

    left = every_row()
    assert [word for word in (ANA, NAME, "Kowalczyk", placeholder, "c-17", "ana-1") if word in left] == []
    assert Trajectory.objects.filter(task__contains="Cancel order").count() == kept == 188
    assert "Bob pays late." in left
    assert "Parcels leave at noon." in left
    assert Heuristic.objects.get().status == "approved"


def test_erased_person_is_neither_in_the_broker_nor_in_files_nor_in_logs(
    shop: Project, broker: str, capfd: pytest.CaptureFixture[str]
) -> None:
    run_command("erase", "--yes")

    with redis.Redis(unix_socket_path=str(valkey.socket_path(HOME / "valkey"))) as at_broker:
        waiting = "".join(str(at_broker.dump(key)) for key in at_broker.scan_iter())
    written = waiting + read_files(HOME) + "".join(capfd.readouterr())
    assert [text for text in (ANA, NAME) if text in written] == []


def test_receipt_says_what_went_and_not_about_whom(shop: Project) -> None:
    run_command("erase", "--yes")

    check_deferred()
    receipt = Erasure.objects.get(receipt__isnull=False)
    said: Any = receipt.receipt
    assert said["counts"] | {"runs": 12, "conversations": 1, "passages": 3} == said["counts"]
    assert (said["left"], said["refused"], receipt.erased_by) == ({}, 0, "command:person")
    assert AuditEntry.objects.filter(kind="erasure", subject_id=receipt.trajectory_id).exists()


def test_chain_agrees_with_the_reviews_after_an_erasure(shop: Project) -> None:
    run_command("erase", "--yes")

    check_deferred()
    assert set(Review.objects.values_list("reason", flat=True)) == {""}
    assert verify_audit().faults == []


def test_export_has_every_row_about_the_person(shop: Project, tmp_path: Path) -> None:
    file = tmp_path / "ana.jsonl"

    run_command("export", "--to", str(file))

    rows = [json.loads(line) for line in file.read_text().splitlines()]
    kinds = [row["kind"] for row in rows]
    assert (kinds.count("runs"), kinds.count("passages"), kinds.count("comments")) == (13, 3, 1)
    assert f"{NAME} pays early." in file.read_text()


def test_erasure_without_an_answer_erases_nothing(shop: Project) -> None:
    with pytest.raises(CommandError, match="Nothing was erased"):
        run_command("erase")

    assert Conversation.objects.count() == 2


def test_repeated_request_of_an_erased_key_is_told_so(shop: Project, client: APIClient) -> None:
    run_command("erase", "--yes")

    body = {"task": "Answer letter 1", "steps": [{"thought": f"I write to {ANA}.", "observation": "sent"}]}
    answer = client.post("/api/v1/trajectories", body, headers={"Idempotency-Key": "ana-1"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "erased")


def test_conversation_in_which_a_run_goes_on_is_named_and_stays(project: Project) -> None:
    make_run(make_agent(project=project), "Hello", user_id="c-17")

    erased = erase_person(project, read_person(user_id="c-17"), by=BY)

    assert not erased.is_complete
    assert "still open" in erased.refused[0]


def test_person_of_another_project_stays(shop: Project) -> None:
    other = make_trajectory(task=f"Cancel the order of {NAME}")

    run_command("erase", "--yes")

    assert Trajectory.objects.filter(pk=other.pk).exists()


def test_client_finds_exports_and_erases_a_person(shop: Project, client: APIClient) -> None:
    whom = {"user_id": "c-17", "texts": [ANA, NAME]}

    found = post(client, "persons/find", **whom)
    page = post(client, "persons/export", **whom, limit=5)
    erased = post(client, "persons/erase", **whom)

    assert {finding["kind"]: finding["count"] for finding in found["results"]}["passages"] == 3
    assert (len(page["results"]), page["pagination"]["total"] > 15) == (5, True)
    assert (erased["erased"]["passages"], erased["refused"], erased["complete"]) == (3, [], True)
    assert NAME not in every_row()


def test_person_is_named_by_something_that_is_not_everywhere(client: APIClient) -> None:
    answer = client.post("/api/v1/persons/find", {"texts": ["a"]})

    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (400, ["/texts/0"])


def test_runs_and_lessons_are_found_by_their_words(shop: Project, client: APIClient) -> None:
    runs = client.get("/api/v1/trajectories", {"query": "order 17 cancel"}).json()["results"]
    lessons = client.get("/api/v1/heuristics", {"query": "late APOLOGISE"}).json()["results"]

    assert [run["task"].partition(" of")[0] for run in runs][-1] == "Cancel order 17"
    assert [lesson["guideline"] for lesson in lessons] == ["Apologise."]


def test_leaver_is_renamed_and_the_chain_still_agrees(project: Project) -> None:
    rae = make_member("rae.smith", project=project, email="rae@example.org", first_name="Rae")
    lesson = make_heuristic(project=project, trigger="When an order is late", guideline="Apologise.")
    approve_as_read(lesson, by=Actor.person(rae), reason="Polite.")
    check_deferred()

    call_command("person", "erase", "--account", "rae.smith", stdout=StringIO())

    check_deferred()
    rae.refresh_from_db()
    review = Review.objects.get(decision="approve")
    assert (review.reviewer, review.reason) == (f"user:{rae.username}", "Polite.")
    assert (rae.is_active, rae.email, rae.username.startswith("former-")) == (False, "", True)
    assert HeuristicRevision.objects.get(served=True).approved_by == f"user:{rae.username}"
    assert verify_audit().faults == []


def test_name_of_a_leaver_stays_in_the_chain_alone(project: Project) -> None:
    rae = make_member("rae.smith", project=project)
    approve_as_read(make_heuristic(project=project), by=Actor.person(rae))
    check_deferred()

    leaver = rename_leaver(rae, by=BY)

    assert list(leaver.kept) == ["memory_auditentry.content"]
    assert every_row().count("user:rae.smith") == sum(
        entry.content.count("user:rae.smith") for entry in AuditEntry.objects.all()
    )


def test_instructions_that_name_the_person_are_erased_and_their_runs_stay(client: APIClient, project: Project) -> None:
    told = f"You work for the shop. Send complaints to {NAME}."
    run = post(client, "trajectories", task="Cancel an order", system_prompt=told, reflect=False)

    erase_person(project, read_person(texts=(NAME,)), by=BY)

    assert Trajectory.objects.get(pk=run["id"]).system_prompt is None
    assert not SystemPrompt.objects.exists()


@pytest.mark.parametrize(
    "typed", ["Jose\u0301 Muñoz", "José Mun\u0303oz", "JOSÉ MUÑOZ"], ids=["two", "mixed", "capitals"]
)
def test_name_is_found_however_its_accents_are_encoded(typed: str, project: Project) -> None:
    make_trajectory(project=project, task="Cancel the order of José Muñoz")
    make_trajectory(project=project, task="Cancel the order of Jose\u0301 Mun\u0303oz")

    found = find_person(project, read_person(texts=(typed,)))

    assert [(finding.label, finding.count) for finding in found] == [("runs", 2)]


def test_bytes_of_another_encoding_are_refused_in_a_sentence(project: Project) -> None:
    with pytest.raises(CommandError, match=r"^/user_id: No row can hold this"):
        call_command("person", "find", "--project=shop", "--user-id=Jos\udce9")


def test_nobody_named_is_refused_in_a_sentence(project: Project) -> None:
    with pytest.raises(CommandError, match=r"^Name a user_id"):
        call_command("person", "find", "--project=shop")
