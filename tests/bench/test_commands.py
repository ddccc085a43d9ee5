"""Commands that measure, each at its smallest size: they start, measure and print their figures."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.test_retrieval_quality import write_folder
from tests.stack import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


def run(*command: str) -> str:
    """Run a command with settings of its own and return what it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ERL_")}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env=environment | {"ERL_ENV_FILE": os.devnull},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_serving_is_measured_against_the_floor_and_with_each_setting(tmp_path: Path) -> None:
    filled = ["--home", str(tmp_path)]
    short = ["--seconds", "0.4", "--rounds", "1"]

    cost = run("bench.serving_cost", *filled, *short, "--heuristics", "60", "--rates", "0", "--warm-up", "0.2")
    settings = run("bench.gunicorn_settings", *filled, *short, "--heuristics", "60", "--only", "2 x 4")
    index = run("bench.index_search", *filled, "--tasks", "2")

    ratios = re.findall(r"^POST /retrieve (?:un)?cached +1 client.* (\d\.\d\d) ", cost, re.MULTILINE)
    assert len(ratios) == 2, cost
    assert settings.count("| 2 x 4 |") == 2
    assert index.count(" ms   recall ") == 8


def test_paths_of_requests_are_counted(tmp_path: Path) -> None:
    told = run("bench.request_paths", "--json", str(tmp_path / "paths.json"))

    assert "POST /retrieve" in told
    assert json.loads((tmp_path / "paths.json").read_text())


def test_search_of_runs_is_timed() -> None:
    assert re.search(r"\d ms", run("bench.run_search", "--runs", "30"))


def test_embedders_are_compared(tmp_path: Path) -> None:
    told = run("bench.embedder_figures", str(write_folder(tmp_path / "set")), "--rounds", "2")

    assert "integers" in told


def test_offline_reflector_is_reported() -> None:
    assert "proposal" in run("bench.rules_report", "tests/data/coding_sessions", "--draw", "1")


def test_redaction_is_measured() -> None:
    assert "made-up secrets: 4,400 of 4,400 found" in run("bench.redaction_recall")
