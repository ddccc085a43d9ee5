"""The record of earlier runs: recorded in one call, summed up, and given before the next task."""

from collections import defaultdict
from statistics import fmean
from typing import Any

import pytest
from django.db import connection

from memory.api.authentication import verified_keys
from memory.curation.decisions import retire_heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.mistakes.counts import SIGHTINGS_PER_CLIENT
from memory.mistakes.models import MistakeCard
from memory.mistakes.policy import settle_cards
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.project_state import read_state
from memory.retrieval.question import Question
from memory.retrieval.record_block import ask_record, read_material
from tests.api.conftest import make_client
from tests.factories import approve_card_as_read, make_api_key, make_heuristic, make_project, make_rule
from tests.real_runs import TAU, WEBSHOP, load_runs

pytestmark = pytest.mark.django_db
ANA = Actor(label="user:ana")
CARD = {
    "mistake_type": "wrong_fare",
    "bad_decision": "Cancelled basic economy.",
    "correct_decision": "Check the time of booking.",
    "lesson": "24 hours only.",
}
EPISODE = {
    "task_id": "airline.cancel",
    "agent": "bot",
    "score": 0.2,
    "step_count": 7,
    "summary": "The refund was refused.",
    "mistakes": ["Did not look at the fare."],
    "mistake_cards": [CARD],
}
QUESTION = {"task": "Cancel my flight", "task_id": "airline.cancel", "agent": "bot"}


def record(client: Any, **changes: Any) -> Any:
    return client.post("/api/v1/trajectories", EPISODE | {"reflect": False} | changes)


def approve_all(project: Project) -> None:
    for card in MistakeCard.objects.filter(project=project, status="proposed"):
        approve_card_as_read(card, by=ANA)


def ask(client: Any, **headers: str) -> Any:
    return client.get("/api/v1/context", QUESTION, headers=headers)


def test_episode_is_recorded_in_one_small_call(api_client: Any) -> None:
    run = record(api_client).json()

    assert (run["task"], run["outcome"], run["step_count"], run["steps"]) == ("airline.cancel", "failure", 7, [])
    card = MistakeCard.objects.get()
    assert (card.task_id, card.worker_id, card.support) == ("airline.cancel", "bot", 1)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"score": 1.5}, "/score"),
        ({"step_count": -1}, "/step_count"),
        ({"step_count": 3, "steps": [{"thought": "x"}]}, "/step_count"),
        ({"mistakes": "one"}, "/mistakes"),
        ({"mistakes": [3]}, "/mistakes/0"),
        ({"mistake_cards": [CARD, {"lesson": "x"}]}, "/mistake_cards/1/mistake_type"),
        ({"mistake_cards": [{"mistake_type": "x"}]}, "/mistake_cards/0/lesson"),
        ({"mistake_cards": [CARD | {"severity": 3}]}, "/mistake_cards/0/severity"),
        ({"task_id": ""}, "/task"),
    ],
)
def test_episode_with_a_wrong_part_names_it(api_client: Any, changes: dict[str, Any], field: str) -> None:
    response = record(api_client, **changes)

    assert response.status_code == 400
    assert list(response.json()["error"]["fields"]) == [field]


def test_secrets_in_a_card_are_taken_out(api_client: Any) -> None:
    record(api_client, mistake_cards=[CARD | {"lesson": "Use the key sk-ant-api03-" + "a" * 80}])

    revision = MistakeCard.objects.get().current_revision
    assert revision is not None
    assert "sk-ant" not in revision.rationale


def test_repeated_request_counts_once(api_client: Any) -> None:
    for _ in range(2):
        api_client.post("/api/v1/trajectories", EPISODE, headers={"Idempotency-Key": "one"})

    assert MistakeCard.objects.get().support == 1


def test_summary_has_counts_scores_and_cards(api_client: Any) -> None:
    record(api_client)
    record(api_client, score=0.6, mistake_cards=[])
    summary = api_client.get("/api/v1/memory/summary").json()

    assert summary["counts"]["episodes"] == summary["counts"]["scored_episodes"] == 2
    assert summary["counts"]["mistake_cards_proposed"] == 1
    score = summary["scores"][0]
    assert (score["task_id"], score["agent"], score["mean"], score["last"]) == (
        "airline.cancel",
        "bot",
        0.4,
        [0.6, 0.2],
    )
    assert [card["seen_count"] for card in summary["mistake_cards"]] == [1]


def test_summary_of_one_family(api_client: Any) -> None:
    record(api_client)
    summary = api_client.get("/api/v1/memory/summary", {"task_id": "retail"}).json()

    assert (summary["scores"], summary["mistake_cards"]) == ([], [])


def test_summary_of_another_project_is_not_given(api_client: Any, other_client: Any) -> None:
    record(api_client)

    assert other_client.get("/api/v1/memory/summary").json()["counts"]["episodes"] == 0


def test_scores_of_real_runs_equal_an_independent_computation(api_client: Any) -> None:
    expected: dict[str, list[float]] = defaultdict(list)
    for number, run in enumerate(load_runs(WEBSHOP) + load_runs(TAU)):
        family = f"{run['metadata']['benchmark']}.{number % 3}"
        body = {"task": run["task"], "task_id": family, "agent": "real", "score": run["score"], "reflect": False}
        assert api_client.post("/api/v1/trajectories", body).status_code == 201
        expected[family].append(run["score"])

    scores = {each["task_id"]: each for each in api_client.get("/api/v1/memory/summary").json()["scores"]}
    assert scores.keys() == expected.keys()
    for family, values in expected.items():
        shown = scores[family]
        assert (shown["count"], shown["best"]) == (len(values), max(values))
        assert shown["mean"] == pytest.approx(fmean(values), abs=1e-12)
        assert shown["last"] == values[::-1][:10]


def test_context_has_no_word_that_nobody_approved(api_client: Any) -> None:
    record(api_client)

    text = ask(api_client).content.decode()
    assert "failure 0.20" in text
    assert "fare" not in text
    assert "Check the time" not in text


def test_context_begins_with_rules_cards_and_scores(api_client: Any, project: Project) -> None:
    record(api_client)
    approve_all(project)
    make_rule(project=project, task_id="airline.cancel", guideline="Say what you will do first.")

    lines = ask(api_client).content.decode().splitlines()
    assert lines[0] == "<record>"
    assert "- Say what you will do first." in lines
    assert any("seen 1×: Cancelled basic economy → Check the time of booking" in line for line in lines)
    assert lines.count("- Say what you will do first.") == 1
    assert "<lessons>" not in lines  # the rule is the only lesson, and is there already


def test_context_changes_at_once_with_an_approval_and_a_retirement(api_client: Any, project: Project) -> None:
    record(api_client)
    before = ask(api_client)
    approve_all(project)
    approved = ask(api_client, **{"If-None-Match": before["ETag"]})
    retire_heuristic(MistakeCard.objects.get(), by=ANA)
    retired = ask(api_client)

    assert b"Check the time of booking" in approved.content
    assert retired.content == before.content


def test_unchanged_context_answers_304(api_client: Any, project: Project) -> None:
    record(api_client)
    approve_all(project)

    assert ask(api_client, **{"If-None-Match": ask(api_client)["ETag"]}).status_code == 304


def test_retrieve_gives_the_same_text_as_context(api_client: Any, project: Project) -> None:
    record(api_client)
    approve_all(project)

    answer = api_client.post("/api/v1/retrieve", QUESTION).json()
    assert answer["context"].encode() == ask(api_client).content
    assert answer["context"].startswith("<record>")


@pytest.mark.parametrize("question", [{"record": False}, {"mode": "none"}])
def test_record_can_be_left_out(api_client: Any, project: Project, question: dict[str, Any]) -> None:
    record(api_client)
    approve_all(project)

    assert api_client.post("/api/v1/retrieve", QUESTION | question).json()["context"] == ""


def test_context_keeps_within_the_budget_that_is_asked_for(api_client: Any, project: Project) -> None:
    for number in range(8):
        make_heuristic(project=project, status="approved", trigger=f"A flight is cancelled ({number})")
        record(api_client, mistake_cards=[CARD | {"mistake_type": f"type {number}"}])
    approve_all(project)

    sizes = [
        api_client.post("/api/v1/retrieve", QUESTION | {"budget_tokens": n}).json()["tokens"] for n in (0, 90, 400)
    ]
    assert all(size <= budget for size, budget in zip(sizes, (0, 90, 400), strict=True))
    assert sizes[2] > 90


def test_project_has_a_budget_and_sections_of_its_own(api_client: Any, project: Project) -> None:
    record(api_client)
    approve_all(project)
    Project.objects.filter(pk=project.pk).update(record_sizes={"mistake_cards": 0}, record_budget_tokens=60)
    verified_keys.clear()

    assert b"seen" not in ask(api_client).content


def test_new_sections_of_a_project_change_an_answer_given_before(api_client: Any, project: Project) -> None:
    record(api_client)
    approve_all(project)
    before = ask(api_client).content
    Project.objects.filter(pk=project.pk).update(record_sizes={"mistake_cards": 0})
    verified_keys.clear()

    after = ask(api_client).content
    assert (b"seen" in before, b"seen" in after) == (True, False)


def test_inflating_agent_moves_nothing_that_is_approved(
    api_client: Any, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.mistakes.similarity.MERGE_SIMILARITY", 2.0)
    Project.objects.filter(pk=project.pk).update(record_budget_tokens=2000)
    for number in range(5):
        for _ in range(5 - number):
            record(api_client, mistake_cards=[CARD | {"mistake_type": f"t{number}", "bad_decision": f"Did {number}."}])
    approve_all(project)
    before = order_of(project)
    last = MistakeCard.objects.get(current_revision__trigger="t4")
    with connection.cursor() as cursor:  # 10,000 runs of one client that report the last card
        cursor.execute(
            """
            WITH runs AS (
                INSERT INTO memory_trajectory SELECT (t2).* FROM (
                    SELECT jsonb_populate_record(t, jsonb_build_object('id', gen_random_uuid())) AS t2
                    FROM memory_trajectory t, generate_series(1, 10000)
                    WHERE t.id = %(run)s) AS copies
                RETURNING id, project_id)
            INSERT INTO memory_evidence (id, project_id, heuristic_id, trajectory_id, client, words, quote, approved_by,
                created_at)
            SELECT gen_random_uuid(), project_id, %(card)s, id, 'loud', '{}', '', '', now() FROM runs
            """,
            {"run": last.last_seen_id, "card": last.pk},
        )
    record(make_loud(project), mistake_cards=[CARD | {"mistake_type": "t4", "bad_decision": "Did 4."}])
    settle_cards([last.pk])

    assert order_of(project) == before
    last.refresh_from_db()
    assert last.support <= SIGHTINGS_PER_CLIENT + 2


def make_loud(project: Project) -> Any:
    return make_client(make_api_key(project=project, client="loud").token)


def order_of(project: Project) -> list[str]:
    columns, parameters = ask_record(Question(project=project, task="", task_id="airline.cancel", by=ANA))
    state = read_state(project.pk, columns=columns, parameters=parameters)
    return [card.mistake_type for card in read_material(state.record).mistakes]


def test_rule_that_is_found_as_a_lesson_too_is_given_once_and_replayed(api_client: Any, project: Project) -> None:
    rule = make_rule(
        project=project, task_id="airline.cancel", guideline="Cancel the flight after the fare was checked."
    )
    embed_heuristics([rule.pk])

    answer = api_client.post("/api/v1/retrieve", QUESTION).json()
    replayed = api_client.get(f"/api/v1/retrievals/{answer['retrieval_id']}").json()

    assert [item["injected"] for item in answer["items"]] == [True]
    assert answer["context"].count("Cancel the flight after the fare was checked.") == 1
    assert replayed["context_is_exact"]
    assert replayed["context"] == answer["context"]


def test_card_of_another_project_is_not_given(api_client: Any, other_client: Any, project: Project) -> None:
    record(api_client)
    approve_all(project)
    make_project()

    assert ask(other_client).content == b""
