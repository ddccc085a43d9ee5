"""Move a large project from one installation to another, and compare the two.

`python -m bench.whole_project --data DIR --runs 50000` fills a throw-away database with the runs of
DIR/*_trajectories/trajectories.jsonl, again and again under other ids, and with lessons that were approved; exports the
project, tries and does the import into a second database, exports it there, and prints times, sizes and the most memory
that a process took as JSON. Exits with 1 where the second export is not the same bytes. With `--http` the import is
`erl import`, which sends the project to a web server whose jobs another process carries out; people are then `import:`.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice, zip_longest
from pathlib import Path
from typing import Any

FOLDER = Path(tempfile.mkdtemp(prefix="erl-bench-")).resolve()
HERE, THERE = FOLDER / "here", FOLDER / "there"
os.environ |= {
    "ERL_HOME": str(HERE),
    "TEST_EMBEDDED_DURABLE": "0",
    "ERL_ENV_FILE": os.devnull,
    "ERL_REFLECTOR": "rules",
    "DJANGO_SETTINGS_MODULE": "tests.settings",
}

import django  # noqa: E402

django.setup()

from erl_site.embedded import postgres  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from memory.redaction import redact  # noqa: E402
from memory.runs.models import Trajectory  # noqa: E402
from tests.factories import approve_as_read, make_heuristic, make_project  # noqa: E402
from tests.stack import ROOT, Stack  # noqa: E402
from tests.whole_project import ANA  # noqa: E402

BATCH = 500
LESSONS = 500
CLIENT = ROOT / "clients" / "python" / "src"


def manage(home: Path, *arguments: str) -> float:
    """Run a management command on a home and return the seconds it took."""
    start = time.perf_counter()
    command = [sys.executable, "manage.py", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"ERL_HOME": str(home)}, stdout=subprocess.DEVNULL)
    return round(time.perf_counter() - start, 1)


def load_runs(data: Path) -> list[dict[str, Any]]:
    """Return the columns of every run of a folder, without secrets, as if they had been recorded."""
    names = ("task", "steps", "outcome", "score", "metadata")
    lines = [line for file in sorted(data.glob("*_trajectories/trajectories.jsonl")) for line in file.open()]
    runs = [json.loads(line) for line in lines]
    return [redact({name: run[name] for name in names}).value | {"outcome_source": "environment"} for run in runs]


def fill(data: Path, runs: int) -> Project:
    """Make a project with that many runs, and lessons from the first of them."""
    project = make_project(slug="bench", reflect_on_record=False)
    batch: list[Trajectory] = []
    for number, columns in enumerate(islice(cycle(load_runs(data)), runs)):
        batch.append(Trajectory(project=project, external_id=f"run-{number}", **columns))
        if len(batch) == BATCH or number == runs - 1:
            Trajectory.objects.bulk_create(batch)
            batch = []
    for number, run in enumerate(Trajectory.objects.filter(project=project).order_by("id")[:LESSONS]):
        guideline = f"Look at case {number} first."
        approve_as_read(make_heuristic(project=project, trajectory=run, guideline=guideline), by=ANA)
    return project


def import_over_http(folder: Path) -> dict[str, float]:
    """Try and do an import with `erl import`, and return the seconds each took."""
    command = [sys.executable, "manage.py", "create_api_key", "--project=bench", "--create-project", "--client=bench"]
    environment = os.environ | {"ERL_HOME": str(THERE)}
    printed = subprocess.check_output([*command, "--scope=import", "--json"], cwd=ROOT, env=environment)
    stack = Stack(home=THERE, environment={"ERL_HOME": str(THERE)})
    stack.start_web()
    jobs = [sys.executable, "manage.py", "run_jobs", "--kind=import", "--watch"]
    worker = subprocess.Popen(jobs, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        key = json.loads(printed)["api_key"]
        client = environment | {"ERL_URL": stack.base_url, "ERL_API_KEY": key, "PYTHONPATH": str(CLIENT)}
        seconds = {}
        for name, options in (("dry_run_seconds", ["--dry-run"]), ("import_seconds", [])):
            start = time.perf_counter()
            command = [sys.executable, "-c", "import sys; from erl_client.cli import main; sys.exit(main())"]
            subprocess.run(
                [*command, "import", str(folder), *options], check=True, env=client, stdout=subprocess.DEVNULL
            )
            seconds[name] = round(time.perf_counter() - start, 1)
        return seconds
    finally:
        worker.terminate()
        worker.wait()
        # Asked to end, not killed, so that the memory of its own process is counted.
        stack.stop("web")


def is_same(first: Path, second: Path, *, over_http: bool) -> bool:
    """Tell whether two files have the same lines, but for the people, who are others after an import over HTTP."""
    if not (first.is_file() and second.is_file()):
        return False
    with first.open("rb") as before, second.open("rb") as after:
        for line, other in zip_longest(before, after, fillvalue=b""):
            if line != (other.replace(b"import:user:", b"user:") if over_http else other):
                return False
    return True


def measure(data: Path, runs: int, *, over_http: bool) -> dict[str, Any]:
    manage(HERE, "migrate", "--verbosity=0")
    manage(THERE, "migrate", "--verbosity=0")
    fill(data, runs)
    first, second = FOLDER / "first", FOLDER / "second"
    figures: dict[str, Any] = {"runs": runs, "lessons": LESSONS}
    figures["export_seconds"] = manage(HERE, "export_memory", str(first), "--format=project")
    figures["megabytes"] = round(sum(file.stat().st_size for file in first.iterdir()) / 1e6, 1)
    if over_http:
        figures |= import_over_http(first)
    else:
        figures["dry_run_seconds"] = manage(THERE, "import_memory", str(first), "--dry-run", "--same-people")
        figures["import_seconds"] = manage(THERE, "import_memory", str(first), "--same-people")
    figures["most_memory_megabytes"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    manage(THERE, "export_memory", str(second), "--format=project")
    # The manifest has the sums of the files and the project's own row, which stays the taker's.
    names = sorted(file.name for file in first.iterdir() if not over_http or file.suffix == ".jsonl")
    different = [name for name in names if not is_same(first / name, second / name, over_http=over_http)]
    return figures | {"different_files": different}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with *_trajectories folders")
    parser.add_argument("--runs", type=int, default=50_000)
    parser.add_argument("--http", action="store_true", help="import with `erl import`")
    options = parser.parse_args()
    try:
        figures = measure(options.data.resolve(), options.runs, over_http=options.http)
    finally:
        for home in (HERE, THERE):
            postgres.discard(home / "postgres")
        shutil.rmtree(FOLDER, ignore_errors=True)
    print(json.dumps(figures, indent=2))
    return 1 if figures["different_files"] else 0


if __name__ == "__main__":
    sys.exit(main())
