"""Runs in files: which forms are read, and what is said of the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory.errors import UnreadableFile
from memory.intake.files import as_episode, count_entries, read_entries
from tests.real_runs import TAU_NATIVE

RUN = {"id": "r1", "task": "Find a lamp", "steps": [{"action": "search[lamp]", "observation": "one lamp"}]}
CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Find a lamp"},
    {"role": "assistant", "content": "Which one?"},
    {"role": "user", "content": "A red one."},
]


def write(path: Path, content: Any, *, lines: bool = False) -> Path:
    text = "\n".join(json.dumps(item) for item in content) if lines else json.dumps(content)
    path.write_text(text)
    return path


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(path, **options) if entry.data is not None]


def test_read_lines_takes_the_id_as_external_id(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path / "a.jsonl", [RUN], lines=True))

    assert (run["external_id"], run["task"]) == ("r1", "Find a lamp")
    assert run["steps"][0]["action"] == {"name": "search", "arguments": {"input": "lamp"}}


def test_read_bad_line_says_its_number_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{json.dumps(RUN)}\n\n{{"task": \n{json.dumps(RUN | {"id": "r2"})}\n')

    entries = list(read_entries(path))

    assert [entry.place for entry in entries] == ["line 1", "line 3", "line 4"]
    assert entries[1].error.startswith("Expecting value")
    assert [entry.data is not None for entry in entries] == [True, False, True]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"task": ""}, "/task: Write something here."),
        ({"outcome": "won"}, "/outcome:"),
        ({"score": 2}, "/score: This should be less than or equal to 1."),
        ({"mistake_cards": ["x"]}, "/mistake_cards/0: This should be an object."),
        ({"steps": [{"action": {"name": 5}}]}, "steps[0].action.name must be the tool's name"),
        ({"steps": "none"}, "steps must be a list of steps"),
    ],
)
def test_read_wrong_field_says_which_and_why(tmp_path: Path, change: dict[str, Any], error: str) -> None:
    (entry,) = read_entries(write(tmp_path / "a.json", RUN | change))

    assert entry.place == "entry 1"
    assert entry.error.startswith(error)


@pytest.mark.parametrize("content", [[RUN, RUN], {"trajectories": [RUN, RUN]}, {"results": [RUN, RUN]}])
def test_read_document_with_runs(tmp_path: Path, content: Any) -> None:
    assert len(read(write(tmp_path / "a.json", content))) == 2


@pytest.mark.parametrize("content", [CHAT, [CHAT], {"messages": CHAT}, [{"messages": CHAT}]])
def test_read_chat_takes_the_first_user_message_as_the_task(tmp_path: Path, content: Any) -> None:
    (run,) = read(write(tmp_path / "a.json", content))

    assert run["task"] == "Find a lamp"
    assert run["steps"][-1]["observation"] == "A red one."


def test_read_lines_of_chats(tmp_path: Path) -> None:
    assert len(read(write(tmp_path / "chats.jsonl", [{"messages": CHAT}, CHAT], lines=True))) == 2


def test_read_run_without_id_gets_one_of_its_content(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", [{"messages": CHAT}, {"messages": CHAT[:3]}])

    first, second = read(path)

    assert first["external_id"].startswith("sha256:")
    assert first["external_id"] != second["external_id"]
    assert [run["external_id"] for run in read(path)] == [first["external_id"], second["external_id"]]


def test_read_unknown_members_are_kept_as_metadata(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path / "a.json", RUN | {"seed": 7, "metadata": {"split": "dev"}}))

    assert run["metadata"] == {"seed": 7, "split": "dev"}


def test_read_defaults_fill_only_what_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", [RUN, RUN | {"agent": "b"}])

    runs = read(path, defaults={"agent": "a", "task_id": "lamps"})

    assert [(run["agent"], run["task_id"]) for run in runs] == [("a", "lamps"), ("b", "lamps")]


def test_read_benchmark_form_takes_reward_and_leaves_the_right_actions_out() -> None:
    runs = read(TAU_NATIVE)

    assert [(run["score"], run["outcome"], run["outcome_source"]) for run in runs] == [
        (1.0, "success", "environment"),
        (0.0, "failure", "environment"),
    ]
    assert runs[0]["task"].startswith("You are aarav_garcia_1177.")
    assert runs[0]["metadata"] == {"format": "tau-bench", "task_id": 6, "trial": 0}
    assert "kwargs" not in json.dumps(runs)


def test_read_format_is_told_by_the_content(tmp_path: Path) -> None:
    pretty = tmp_path / "pretty.log"
    pretty.write_text(json.dumps(RUN, indent=2))
    lines = write(tmp_path / "lines.log", [RUN, RUN], lines=True)

    assert (len(read(pretty)), len(read(lines))) == (1, 2)
    assert (count_entries(pretty), count_entries(lines)) == (0, 2)


def test_read_format_can_be_forced(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", RUN)

    assert [entry.place for entry in read_entries(path, file_format="json")] == ["entry 1"]


@pytest.mark.parametrize("content", ["{", '"text"', "", "\ufeff{}", "[7]", "[]"])
def test_read_file_that_is_no_document_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)

    with pytest.raises(UnreadableFile):
        list(read_entries(path, file_format="json"))


def test_read_hostile_values_are_refused_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    nul = json.dumps(RUN | {"task": "a\u0000b"})
    deep = '{"task": "x", "metadata": ' + '{"a":' * 200 + "1" + "}" * 201
    path.write_text("\n".join([nul, deep, '{"task": "x", "score": 1e999}', json.dumps(RUN)]))

    entries = list(read_entries(path))

    assert [bool(entry.error) for entry in entries] == [True, True, True, False]


def test_as_episode_reads_a_run_as_reflectors_do(tmp_path: Path) -> None:
    (run,) = read(write(tmp_path / "a.json", RUN | {"outcome": "failure", "mistakes": ["Too hasty."]}))

    episode = as_episode(run)

    assert (episode.task, episode.outcome, episode.mistakes) == ("Find a lamp", "failure", ("Too hasty.",))
    assert episode.steps[0].action is not None
    assert episode.steps[0].action.name == "search"
