"""`erl import` of files with lessons: proposals with their origin, and nothing twice."""

import json
import time
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from erl_client import ERL
from erl_client.cli import main
from erl_client.lesson_files.entries import LessonFile
from erl_client.lesson_files.formats import read_lessons

from memory.curation.proposals import revise_heuristic
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.factories import make_api_key, make_heuristic, make_project

PAGE = """\
# My project

This project uses pnpm workspaces, never npm.

## Testing

- Run `pnpm test` before you commit.
  - The slow ones need `--slow`.
- When a snapshot test fails, look at the diff first.

Run a single test like this:

```
pnpm test -t name
# no heading
```

Rules for mocks:

* Never mock the database.

### Unit tests
Keep them under a second
each, please.
"""
PLAYBOOK = """\
## STRATEGIES & INSIGHTS
[str-00001] helpful=5 harmful=1 :: Check the units before you add.
[str-00002] helpful=0 harmful=2 :: If the API answers 429, wait as long as it says.
"""


def read(text: str, name: str = "AGENTS.md") -> LessonFile:
    found = read_lessons(dedent(text).encode(), name)
    assert found is not None
    return found


def said(file: LessonFile) -> list[tuple[str, str]]:
    return [(entry.trigger, entry.guideline) for entry in file.entries]


def test_what_follows_a_comment_is_read_and_an_open_comment_is_named() -> None:
    file = read(
        "<!-- a\nb --> Always run the tests.\n\n<!-- c --> - Never mock the database.\n\n<!-- d\nUse pnpm here.\n"
    )

    assert [guideline for _, guideline in said(file)] == ["Always run the tests.", "Never mock the database."]
    assert file.problems == ["line 6: The comment does not end."]


def test_line_that_does_not_end_its_exceptions_is_read_at_once() -> None:
    line = "- [H-00000000] When a: do b" + " (avoid: x; not when: " * 350
    began = time.process_time()

    (entry,) = read(f"<!-- erl:lessons x -->\n{line}\n<!-- erl:end -->\n").entries

    assert entry.guideline.startswith("do b (avoid: x; not when: ")
    assert time.process_time() - began < 2


def test_page_gives_its_items_and_paragraphs_with_their_sections() -> None:
    file = read(PAGE)

    assert said(file) == [
        ('the task concerns "My project"', "This project uses pnpm workspaces, never npm."),
        ('the task concerns "Testing"', "Run `pnpm test` before you commit.\n  - The slow ones need `--slow`."),
        ("a snapshot test fails", "When a snapshot test fails, look at the diff first."),
        ('the task concerns "Testing"', "Run a single test like this:\n\n```\npnpm test -t name\n# no heading\n```"),
        ('the task concerns "Testing > Rules for mocks"', "Never mock the database."),
        ('the task concerns "Testing > Unit tests"', "Keep them under a second\neach, please."),
    ]
    assert [entry.place for entry in file.entries] == ["line 3", "line 7", "line 9", "line 11", "line 20", "line 23"]
    assert file.problems == []


def test_skill_says_when_all_of_it_applies() -> None:
    file = read(
        """\
        ---
        name: pdf-forms
        description: >
          Fills in forms. Use when a task mentions
          PDF forms.
        ---
        # Forms
        - Check that every field is filled.
        ## Fonts
        - Embed all of the fonts.
        """,
        "SKILL.md",
    )

    assert said(file) == [
        ("a task mentions PDF forms", "Check that every field is filled."),
        ('a task mentions PDF forms, and it concerns "Fonts"', "Embed all of the fonts."),
    ]


def test_playbook_gives_its_bullets_with_their_counts() -> None:
    file = read(PLAYBOOK + "what is this\n", "playbook.txt")

    assert file.format == "ACE playbook"
    assert said(file) == [
        ('the task concerns "Strategies & insights"', "Check the units before you add."),
        ("the API answers 429", "If the API answers 429, wait as long as it says."),
    ]
    assert "helpful 0, harmful 2" in file.entries[1].remark
    assert file.problems == ["line 4: This is not a playbook bullet."]


@pytest.mark.parametrize(
    "document",
    [
        [{"content": "Always validate the input.", "section": "useful_rules", "helpful_count": 1}],
        {"bullets": {"a": {"content": "Always validate the input.", "section": "useful_rules"}}},
        {"skills": [{"content": "Always validate the input.", "section": "useful_rules"}]},
    ],
)
def test_playbook_may_be_json(document: object) -> None:
    file = read(json.dumps(document), "playbook.json")

    assert said(file) == [('the task concerns "Useful rules"', "Always validate the input.")]


@pytest.mark.parametrize("lines", [False, True], ids=["results", "lines"])
def test_export_of_mem0_gives_its_memories(lines: bool) -> None:
    memories = [
        {"id": "m1", "memory": "Prefers short answers.", "categories": ["style"], "user_id": "ana"},
        {"id": "m2", "memory": "Never deploys on Fridays.", "categories": None},
        {"id": "m3"},
    ]
    text = "\n".join(map(json.dumps, memories)) if lines else json.dumps({"results": memories})

    file = read(text, "mem0.json")

    assert file.format == "mem0"
    assert said(file) == [
        ('the task concerns "style"', "Prefers short answers."),
        ("any task begins", "Never deploys on Fridays."),
    ]
    assert [entry.id for entry in file.entries] == ["m1", "m2"]
    assert "does not say when" in file.entries[1].remark
    assert file.problems == [f"{'line' if lines else 'entry'} 3: There is no text in `memory`."]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("---\nname: x\n", "line 1: The front matter does not end."),
        ("| a | b |\n|---|---|\n", "line 1: Tables are not read. Write it as a list."),
        ("\n- ok\n", "line 2: 'ok' is too short for a lesson."),
        ("- " + "long " * 2_000, "line 1: This is longer than 8,000 characters."),
        ("```\ncode\n```\n", "line 1: Code without an explanation is not a lesson."),
        ("Do it like this:\n```\ncode\n", "line 1: The code block does not end."),
    ],
)
def test_what_is_no_lesson_is_named_with_its_line(text: str, problem: str) -> None:
    assert problem in read(text).problems


def test_page_in_another_encoding_is_named() -> None:
    file = read_lessons("Größe".encode("latin-1"), "AGENTS.md")

    assert file is not None
    assert file.problems == ["byte 2: This is not UTF-8."]


def test_log_of_a_run_is_not_taken_for_lessons() -> None:
    assert read_lessons(b'[{"role": "user", "content": "Cancel it."}]', "log.json") is None


def test_import_proposes_with_the_origin_and_nothing_twice(
    erl: ERL, project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "AGENTS.md").write_text(PAGE)
    (tmp_path / "README.md").write_text("This is about something else entirely.\n")
    (tmp_path / "playbook.txt").write_text(PLAYBOOK)
    (tmp_path / "run.json").write_text('[{"role": "user", "content": "Cancel it."}]')
    command = ["import", str(tmp_path), "--family", "airline"]

    assert main([*command, "--dry-run"]) == 0
    dry = capsys.readouterr()
    assert not Heuristic.objects.exists()
    assert 'line 20: When the task concerns "Testing > Rules for mocks": Never mock the database.' in dry.out
    assert "README.md: skipped" in dry.err
    assert main(command) == 0
    assert "8 lessons proposed for review, 0 already there, 1 run recorded, 0 refused." in capsys.readouterr().out
    assert main(command) == 0
    assert "0 lessons proposed for review, 8 already there" in capsys.readouterr().out

    assert Heuristic.objects.filter(status="proposed").count() == 8
    assert not HeuristicRevision.objects.filter(served=True).exists()
    assert Trajectory.objects.count() == 1
    revision = HeuristicRevision.objects.get(guideline="Never mock the database.")
    assert (revision.task_id, revision.scope) == ("airline", "task_family")
    origin = {"format": "instructions", "file": str(tmp_path / "AGENTS.md"), "place": "line 20"}
    assert revision.heuristic.metadata == {"imported_from": origin}
    assert f"Imported from {tmp_path / 'AGENTS.md'}, line 20 (instructions)." in revision.rationale


def test_lesson_that_a_reviewer_reworded_is_not_proposed_again(erl: ERL, tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text("- Ask ana@example.com about it, never the others.\n")
    assert main(["import", str(file)]) == 0
    lesson = Heuristic.objects.with_text().get()
    assert lesson.current_revision
    text = replace(lesson.current_revision.as_text(), guideline="Ask the team's lead.")
    revise_heuristic(lesson, text=text, by=Actor(label="user:ana"))

    file.write_text("\n\n" + file.read_text())
    assert main(["import", str(file)]) == 0

    assert Heuristic.objects.count() == 1
    assert HeuristicRevision.objects.count() == 2


def test_refused_lesson_does_not_hold_up_the_others(
    erl: ERL, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "AGENTS.md").write_text("- Keep this one\x00 out of it.\n- Take this one in.\n")

    assert main(["import", str(tmp_path / "AGENTS.md")]) == 1

    assert "line 1: ERL answered 400" in capsys.readouterr().err
    assert Heuristic.objects.count() == 1


def test_exported_lessons_are_the_same_elsewhere_and_known_at_home(
    erl: ERL, project: Project, live_server: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words: dict[str, Any] = {
        "trigger": "asked to cancel a reservation",
        "guideline": "Read the fare class first (it decides).",
        "avoid": "Cancelling <!-- before --> reading.",
        "not_when": "The airline cancelled.",
        "task_id": "airline",
    }
    make_heuristic(project=project, status="approved", **words)
    make_heuristic(project=project, status="approved", trigger="a refund is asked for", guideline="Ask why.")
    file = tmp_path / "AGENTS.md"
    assert main(["export", "--to", str(file)]) == 0

    assert main(["import", str(file)]) == 0
    assert Heuristic.objects.count() == 2
    elsewhere = make_project()
    monkeypatch.setenv("ERL_API_KEY", make_api_key(project=elsewhere).token)
    assert main(["import", str(file)]) == 0

    lesson, _ = (
        Heuristic.objects.with_text().filter(project=elsewhere).order_by("current_revision__guideline").reverse()
    )
    assert lesson.status == "proposed"
    assert {name: getattr(lesson.current_revision, name) for name in words} == words
