"""manage.py import_trajectories"""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from erl_client.logs import read_log

from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection
from tests.factories import make_project
from tests.real_runs import EXCERPTS, TAU, TAU_NATIVE, WEBSHOP

pytestmark = pytest.mark.django_db

EXPORT = Path(__file__).parents[1] / "data" / "exports" / "small"
RUN = {"id": "r1", "task": "Find a lamp", "steps": [{"action": "search[lamp]", "observation": "one lamp"}]}


def run_import(path: Path, *arguments: str) -> tuple[str, str, int]:
    """Return what the command wrote to both streams, and how it exited."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("import_trajectories", str(path), *arguments, stdout=out, stderr=err)
    except SystemExit as exit_:
        return out.getvalue(), err.getvalue(), int(str(exit_.code))
    return out.getvalue(), err.getvalue(), 0


def write_lines(path: Path, *runs: Any) -> Path:
    path.write_text("\n".join(run if isinstance(run, str) else json.dumps(run) for run in runs))
    return path


@pytest.mark.parametrize(("path", "count"), [(TAU, 20), (WEBSHOP, 32), (TAU_NATIVE, 2)])
def test_import_records_real_runs_and_queues_their_reflection(path: Path, count: int) -> None:
    make_project()

    out, err, code = run_import(path)

    assert (code, err) == (0, "")
    assert f"\n{count} imported, 0 unchanged, 0 failed ({path.name})." in out
    assert Trajectory.objects.count() == Reflection.objects.count() == count


@pytest.mark.parametrize("named", [".", "..", "memory_trajectory.jsonl"])
def test_part_of_a_whole_project_is_no_log(tmp_path: Path, named: str) -> None:
    make_project()
    folder = tmp_path / "export"
    shutil.copytree(EXPORT, folder)

    with pytest.raises(CommandError) as refused:
        run_import((folder / named).resolve())

    assert str(refused.value) == (
        f"{folder / 'memory_trajectory.jsonl'} is part of a whole project. Import all of {folder} with manage.py "
        "import_memory."
    )


def test_import_again_changes_nothing() -> None:
    make_project()
    run_import(TAU)
    before = list(Trajectory.objects.order_by("id").values())

    out, _, code = run_import(TAU)

    assert (code, out) == (
        0,
        "trajectories.jsonl: ERL: 20 runs\n0 imported, 20 unchanged, 0 failed (trajectories.jsonl).\n",
    )
    assert list(Trajectory.objects.order_by("id").values()) == before
    assert Reflection.objects.count() == 20


def test_import_keeps_metadata_and_outcome() -> None:
    make_project()

    run_import(TAU, "--task-id", "airline", "--agent", "gpt-4o", "--outcome-source", "environment")

    run = Trajectory.objects.get(external_id="tau-airline-01-0")
    assert (run.task_id, run.agent, run.outcome, run.outcome_source) == ("airline", "gpt-4o", "failure", "environment")
    assert run.metadata["benchmark"] == "tau-bench"


def test_import_bad_lines_are_reported_and_good_ones_kept(tmp_path: Path) -> None:
    make_project()
    path = write_lines(tmp_path / "a.jsonl", RUN, '{"task":', {"id": "r2"}, RUN | {"id": "r3"})

    out, err, code = run_import(path)

    assert code == 1
    assert "\n2 imported, 0 unchanged, 2 failed (a.jsonl)." in out
    assert [line.split(":")[0] for line in err.splitlines()] == ["line 2", "line 3"]
    assert "This is not in a known format: an object with the members id." in err
    assert set(Trajectory.objects.values_list("external_id", flat=True)) == {"r1", "r3"}


def test_import_other_run_under_a_known_id_is_reported(tmp_path: Path) -> None:
    make_project()

    _, err, code = run_import(write_lines(tmp_path / "a.jsonl", RUN, RUN | {"task": "Find a chair"}))

    assert code == 1
    assert err.startswith("line 2: A different trajectory with external_id 'r1' exists")
    assert Trajectory.objects.get().task == "Find a lamp"


def test_import_without_reflection_queues_none() -> None:
    make_project()

    run_import(TAU_NATIVE, "--no-reflect")

    assert Trajectory.objects.count() == 2
    assert Reflection.objects.count() == 0


def test_import_dry_run_records_nothing(tmp_path: Path) -> None:
    out, err, code = run_import(write_lines(tmp_path / "a.jsonl", RUN, "[]x"), "--dry-run")

    assert code == 1
    assert out == "a.jsonl: ERL: 1 run\n1 would be imported, 0 unchanged, 1 failed (a.jsonl).\n"
    assert err.startswith("line 2: ")
    assert Trajectory.objects.count() == 0


def test_import_json_prints_one_object(tmp_path: Path) -> None:
    make_project()

    out, err, code = run_import(write_lines(tmp_path / "a.jsonl", RUN, "{"), "--json")
    report = json.loads(out)

    assert (code, err) == (1, "")
    assert (report["imported"], report["unchanged"], report["failed"]) == (1, 0, 1)
    assert report["errors"][0]["place"] == "line 2"


def test_import_many_bad_lines_are_summed_up(tmp_path: Path) -> None:
    make_project()

    _, err, _ = run_import(write_lines(tmp_path / "a.jsonl", *[{"task": ""}] * 60))

    assert err.splitlines()[-1] == "… and 10 more; --json lists them all."


def test_import_goes_into_the_named_project() -> None:
    wanted, _ = make_project(slug="wanted"), make_project(slug="other")

    run_import(TAU_NATIVE, "--project", "wanted")

    assert set(Trajectory.objects.values_list("project_id", flat=True)) == {wanted.pk}


@pytest.mark.parametrize(
    ("projects", "arguments", "message"),
    [
        ((), (), "There is no project yet."),
        (("a", "b"), (), "Name the project with --project SLUG (known: a, b)."),
        (("a",), ("--project", "x"), "There is no project 'x' (known: a)."),
    ],
)
def test_import_without_a_clear_project_says_what_to_do(
    projects: tuple[str, ...], arguments: tuple[str, ...], message: str
) -> None:
    _ = [make_project(slug=slug) for slug in projects]

    with pytest.raises(CommandError) as refused:
        run_import(TAU, *arguments)

    assert str(refused.value).startswith(message)


def test_import_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="There is no file"):
        run_import(tmp_path / "none.jsonl")


def test_import_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    make_project()
    path = tmp_path / "a.json"
    path.write_text("task: find a lamp")

    with pytest.raises(CommandError, match="is not readable JSON"):
        run_import(path)


SAMPLES = EXCERPTS / "transcripts"


def test_import_says_what_each_file_of_a_folder_was_taken_for(tmp_path: Path) -> None:
    make_project()
    for name in ("langfuse_observations.json", "otlp_genai.pb", "own_runs.jsonl"):
        (tmp_path / name).write_bytes((SAMPLES / name).read_bytes())
    (tmp_path / "notes.txt").write_text("No log.")
    (tmp_path / "other.json").write_text('{"event": "login"}')

    out, err, code = run_import(tmp_path)

    assert code == 1
    assert err.startswith("other.json: This is not in a known format")
    assert out.splitlines()[:4] == [
        "langfuse_observations.json: Langfuse: 7 observations, 2 runs",
        "otlp_genai.pb: OpenTelemetry: 6 spans, 1 run",
        "own_runs.jsonl: ERL: 2 runs",
        f"5 imported, 0 unchanged, 1 failed ({tmp_path.name}).",
    ]


@pytest.mark.parametrize("name", ["otlp_subagent.json", "claude_code_session.jsonl", "own_runs.jsonl"])
def test_import_links_runs_to_the_runs_that_called_them(name: str) -> None:
    make_project()

    run_import(SAMPLES / name)

    parent, child = Trajectory.objects.order_by("created_at", "id")
    assert (parent.parent, child.parent) == (None, parent)


def test_import_keeps_the_name_of_a_parent_that_is_not_there(tmp_path: Path) -> None:
    make_project()

    _, _, code = run_import(write_lines(tmp_path / "a.jsonl", RUN | {"parent_id": "elsewhere"}))

    assert (code, Trajectory.objects.get().metadata) == (0, {"parent_id": "elsewhere"})


@pytest.mark.parametrize(
    ("names", "family", "kept"),
    [
        ({"family": "shop"}, "shop", None),
        ({"family": "shop", "task_id": "shop"}, "shop", None),
        ({"family": "shop", "task_id": "lamps"}, "lamps", "shop"),
        ({"family": {"name": "shop"}}, "", {"name": "shop"}),
    ],
)
@pytest.mark.parametrize("members", [{}, {"steps": None, "messages": [{"role": "user", "content": "Find a lamp"}]}])
def test_import_takes_both_names_of_the_family(
    tmp_path: Path, members: dict[str, Any], names: dict[str, Any], family: str, kept: Any
) -> None:
    make_project()
    run = {name: value for name, value in (RUN | members | names).items() if value is not None}

    run_import(write_lines(tmp_path / "a.json", run))

    recorded = Trajectory.objects.get()
    assert (recorded.task_id, recorded.metadata.get("family")) == (family, kept)
    [sent] = read_log(json.dumps(run).encode(), defaults={}).runs
    assert (sent.get("task_id", ""), sent.get("metadata", {}).get("family")) == (family, kept)


def test_import_since_skips_runs_that_began_before(tmp_path: Path) -> None:
    make_project()
    early, late = RUN | {"started_at": "2025-05-31T23:00:00Z"}, RUN | {"id": "r2", "started_at": "2025-06-01T00:00:00Z"}

    out, _, _ = run_import(write_lines(tmp_path / "a.jsonl", early, late), "--since", "2025-06-01")

    assert "1 imported, 0 unchanged, 0 failed, 1 before --since (a.jsonl)." in out
    assert Trajectory.objects.get().external_id == "r2"


def test_import_takes_the_outcome_from_the_place_that_is_named() -> None:
    make_project()

    run_import(SAMPLES / "langfuse_trace.json", "--outcome-from", "scores.0.value")

    assert (Trajectory.objects.get().score, Trajectory.objects.get().outcome) == (0.0, "failure")


def test_dry_run_foresees_what_the_import_refuses(tmp_path: Path) -> None:
    make_project()
    run_import(write_lines(tmp_path / "first.jsonl", RUN))
    folder = tmp_path / "logs" / "inner"
    folder.mkdir(parents=True)
    write_lines(folder / "a.jsonl", RUN | {"task": "Find another lamp"}, RUN, RUN | {"id": "r2"})

    foreseen = run_import(tmp_path / "logs", "--dry-run")
    before = Trajectory.objects.count()
    happened = run_import(tmp_path / "logs")

    assert before == 1
    assert "1 would be imported, 1 unchanged, 1 failed" in foreseen[0]
    assert "1 imported, 1 unchanged, 1 failed" in happened[0]
    assert foreseen[1:] == happened[1:]
    assert foreseen[1].startswith("inner/a.jsonl, line 1: ")


@pytest.mark.parametrize(
    "line", [{"trigger": "When", "guideline": "Do", "content_sha256": "0"}, {"global_rules": [], "episode_log": []}]
)
def test_what_another_command_reads_names_it(line: dict[str, Any], tmp_path: Path) -> None:
    make_project()

    with pytest.raises(CommandError, match=r"manage\.py import_memory"):
        run_import(write_lines(tmp_path / "a.jsonl", line))


def test_folder_of_many_programs_is_imported_as_foreseen_with_one_error_per_file(tmp_path: Path) -> None:
    make_project()
    folder = tmp_path / "logs"
    shutil.copytree(EXCERPTS / "programs", folder, ignore=shutil.ignore_patterns("expected.json", "*LICENSE", "*.md"))
    (folder / "droid" / "events.jsonl").write_text('{"event": "login"}\n' * 30)

    foreseen = run_import(folder, "--dry-run")
    happened = run_import(folder)

    assert foreseen[1:] == happened[1:]
    assert [line.partition(": ")[0] for line in happened[1].splitlines()] == [
        "droid/events.jsonl",
        "langfuse/download_without_inputs.json",
    ]
    foreseen_counts, counts = foreseen[0].splitlines()[-1], happened[0].splitlines()[-2]
    assert foreseen_counts.replace("would be imported", "imported") == counts
    assert "atif/job/fix-rounding__1/agent/trajectory.json: ATIF: 1 run" in happened[0]
    assert Trajectory.objects.get(external_id="harbor-1").outcome == "success"
    assert Trajectory.objects.get(external_id="he-2").metadata["parent_id"] == "he-1"
