"""Agents' own memory files: imported without loss, exported again, and nothing given to agents unread."""

import copy
import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from memory.curation.decisions import reject_heuristic
from memory.episodes.export_file import export_memory
from memory.episodes.import_file import import_memory
from memory.errors import InvalidMemoryFile
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.intake.recording import record_trajectory
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import retrieve
from memory.retrieval.question import Question
from memory.runs.models import Trajectory
from memory.runs.scores import read_score_history
from memory.trust.erasure import erase_trajectory
from memory.trust.quarantine import quarantine_source
from tests.factories import approve_as_read, make_project

pytestmark = pytest.mark.django_db
FILE = Path(__file__).parents[1] / "data" / "agent_memory.json"
ANA = Actor(label="user:ana")


@pytest.fixture
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FILE.read_text())
    return loaded


def test_file_comes_out_as_it_went_in(project: Project, document: dict[str, Any]) -> None:
    done = import_memory(project, document=copy.deepcopy(document), by=ANA)

    assert export_memory(project) == document
    assert (done.episodes, done.scores, done.rules, done.cards) == (4, 6, 5, 2)


def test_file_imported_again_changes_nothing(project: Project, document: dict[str, Any]) -> None:
    import_memory(project, document=document, by=ANA)
    counts = [model.objects.count() for model in (Trajectory, Heuristic, MistakeCard)]

    assert import_memory(project, document=document, by=ANA).already_imported
    assert [model.objects.count() for model in (Trajectory, Heuristic, MistakeCard)] == counts


def test_file_that_grew_adds_what_is_new(project: Project, document: dict[str, Any]) -> None:
    import_memory(project, document=copy.deepcopy(document), by=ANA)
    document["episode_log"].append({"episode": 45, "task_id": "retail.return", "score": 1.0})
    document["score_history"]["retail.return"].append(1.0)
    document["global_rules"].append("[WORKS] Thank the customer.")
    document["mistake_cards"][0]["seen_count"] = 8

    done = import_memory(project, document=copy.deepcopy(document), by=ANA)

    assert (done.episodes, done.scores, done.rules, done.cards) == (1, 0, 1, 0)
    assert export_memory(project) == document
    assert MistakeCard.objects.get(current_revision__trigger="unchecked_precondition").support == 8


def test_scores_go_on_from_where_they_were(project: Project, document: dict[str, Any]) -> None:
    import_memory(project, document=document, by=ANA)
    histories = {h.task_id: h for h in read_score_history(project)}

    assert {task_id: h.count for task_id, h in histories.items()} == {
        "airline.cancel": 6,
        "retail.exchange": 2,
        "retail.return": 2,
    }
    assert histories["airline.cancel"].last == (1.0, 0.2, 0.35, 0.4, 0.1, 0.1)


def test_nothing_of_a_file_is_given_to_agents_before_it_is_approved(project: Project, document: dict[str, Any]) -> None:
    import_memory(project, document=document, by=ANA)
    assert not HeuristicRevision.objects.filter(served=True).exists()
    before = retrieve(Question(project=project, task="Cancel", task_id="airline.cancel", by=ANA)).context

    rule = Heuristic.objects.get(current_revision__guideline__startswith="Look at the fare class")
    approve_as_read(rule, by=ANA)

    after = retrieve(Question(project=project, task="Cancel", task_id="airline.cancel", by=ANA)).context
    assert "fare class" not in before
    assert "- Look at the fare class and the time of booking before cancelling." in after


def test_export_adds_newer_rows_and_omits_withdrawn_ones(project: Project, document: dict[str, Any]) -> None:
    import_memory(project, document=document, by=ANA)
    data = {"task": "Return it", "task_id": "retail.return", "score": 0.5, "summary": "Half."}
    record_trajectory(project, data=data, by=ANA, reflect=False)
    erase_trajectory(Trajectory.objects.get(metadata__agent_memory__episode=41), by=ANA)
    reject_heuristic(Heuristic.objects.get(current_revision__guideline="Keep answers short."), by=ANA)

    exported = export_memory(project)

    assert [e.get("episode") for e in exported["episode_log"]] == [42, 43, 44, None]
    assert exported["score_history"]["retail.return"] == [0.9, 0.95, 0.5]
    assert "Keep answers short." not in exported["global_rules"]
    assert "Cancelled a ticket" not in json.dumps(exported)


def test_export_leaves_out_what_a_quarantine_order_covers(project: Project, document: dict[str, Any]) -> None:
    earlier = timezone.now() - timedelta(hours=1)
    quarantine_source(project, client=ANA.label, since=earlier, by=Actor(label="user:ops"))
    import_memory(project, document=document, by=ANA)  # after the order: it waits, and is covered all the same

    exported = export_memory(project)

    assert Heuristic.objects.proposed().exists()
    assert MistakeCard.objects.proposed().exists()
    assert exported["global_rules"] == []
    assert exported["mistake_cards"] == []


def test_export_of_a_project_of_its_own_can_be_imported(project: Project) -> None:
    card = {"mistake_type": "wrong_fare", "correct_decision": "Check the fare.", "evidence": "Step 2."}
    data = {"task": "Cancel", "task_id": "airline", "score": 0.25, "mistakes": ["Oops."], "mistake_cards": [card]}
    record_trajectory(project, data=data, by=ANA, reflect=False)
    exported = export_memory(project)

    other = make_project()
    import_memory(other, document=copy.deepcopy(exported), by=ANA)

    assert export_memory(other) == exported
    assert read_score_history(other)[0].mean == 0.25


@pytest.mark.parametrize("rule", ["\u200b", "[AVOID] \u2060\u200b", "x" * 8_001, " "])
def test_rule_that_cannot_be_reviewed_is_kept_and_not_proposed(project: Project, rule: str) -> None:
    import_memory(project, document={"global_rules": [rule]}, by=ANA)

    assert not Heuristic.objects.exists()
    assert export_memory(project)["global_rules"] == [rule]


def test_secrets_in_a_file_are_taken_out(project: Project) -> None:
    rule = "[WORKS] Use sk-ant-api03-" + "a" * 80
    import_memory(project, document={"global_rules": [rule]}, by=ANA)

    assert "sk-ant" not in json.dumps(export_memory(project))


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ([], "not a JSON object"),
        ({"version": 3, "rules": ["x"]}, "none of the members"),
        ({"global_rules": {}}, "global_rules"),
        ({"task_rules": {"a": "b"}}, "task_rules.a"),
        ({"episode_log": ["x"]}, r"episode_log\[0\]"),
        ({"episode_log": [{"score": 7}]}, r"episode_log\[0\].score"),
    ],
)
def test_wrong_file_is_refused_with_its_place(project: Project, document: Any, place: str) -> None:
    with pytest.raises(InvalidMemoryFile, match=place):
        import_memory(project, document=document, by=ANA)


def test_commands_import_and_export(project: Project, tmp_path: Path, document: dict[str, Any]) -> None:
    said = StringIO()
    call_command("import_memory", str(FILE), project=project.slug, stdout=said)
    call_command("export_memory", str(tmp_path / "out.json"), project=project.slug, stdout=said)

    assert "wait for review" in said.getvalue()
    assert json.loads((tmp_path / "out.json").read_text()) == document


def test_command_names_the_file_it_cannot_read(project: Project, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"missing\.json cannot be read"):
        call_command("import_memory", str(tmp_path / "missing.json"), project=project.slug)


def test_export_to_a_bad_path_says_so(project: Project, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be written: No such file"):
        call_command("export_memory", str(tmp_path / "no" / "memory.json"), project=project.slug)


@pytest.mark.parametrize(
    "content", [r'{"global_rules": ["a\u0000b"]}', r'{"global_rules": ["\ud800"]}', '{"x": NaN}', "[" * 100_000]
)
def test_command_refuses_what_cannot_be_kept(project: Project, tmp_path: Path, content: str) -> None:
    file = tmp_path / "broken.json"
    file.write_text(content)
    with pytest.raises(CommandError, match=r"broken\.json cannot be read"):
        call_command("import_memory", str(file), project=project.slug)


def test_values_that_no_row_can_hold_stay_in_the_outline(project: Project) -> None:
    """A time after Python's last year could be stored, but then no list of runs could be read."""
    late = {"task": "a", "score": 1, "steps": 10**12, "timestamp": "9999-12-31T23:59:59-14:00"}
    early = {"task": "b", "timestamp": "0001-01-01T00:00:00+14:00"}
    card = {"mistake_type": "loop", "bad_decision": "Went on.", "seen_count": 10**12}
    document = {"episode_log": [late, early], "score_history": {"c": [0.5]}, "mistake_cards": [card]}
    import_memory(project, document=document, by=ANA)

    assert all(run.created_at <= timezone.now() for run in Trajectory.objects.filter(project=project))
    assert export_memory(project)["episode_log"] == [late, early]


def test_entries_that_look_like_rows_are_kept_as_they_are(project: Project) -> None:
    document = {"global_rules": [{"heuristic": 1}], "mistake_cards": [{"card": []}, {"card": "a", "note": "b"}]}
    import_memory(project, document=copy.deepcopy(document), by=ANA)

    assert export_memory(project) == document
