"""What is installed is what was tested: the wheels in a fresh environment, and the steps of the image in an empty tree.

There is no container engine here: of Containerfile, FROM is this Python, and the user is not created.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.erl_site.test_compose import CONTAINERFILE, SERVICES, interpolate
from tests.programs import require_program
from tests.stack import ROOT, free_port

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(900)]


def run(*command: str | Path, folder: Path, **environment: str) -> str:
    """Run a program in a folder, with nothing of this process but where programs and packages come from."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_", "LANG"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=kept | {"PATH": os.environ["PATH"], "HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both wheels, install them into a fresh environment, and return the folder of its programs."""
    uv, folder = require_program("uv"), tmp_path_factory.mktemp("wheels")
    cache = run(uv, "cache", "dir", folder=folder, HOME=os.environ.get("HOME", "/")).strip()
    for project in (ROOT, ROOT / "clients" / "python"):
        run(uv, "build", "--wheel", "--out-dir", folder / "dist", project, folder=folder, UV_CACHE_DIR=cache)
    run(uv, "venv", "--python", sys.executable, folder / "venv", folder=folder)
    python, wheels = folder / "venv" / "bin" / "python", sorted((folder / "dist").glob("*.whl"))
    run(uv, "pip", "install", "--python", python, *wheels, folder=folder, UV_CACHE_DIR=cache)
    return python.parent


def test_installed_server_does_what_the_first_command_of_the_readme_does(installed: Path, tmp_path: Path) -> None:
    port = str(free_port())

    output = run(installed / "erl-server", "quickstart", "--once", "--port", port, folder=tmp_path, HOME="")

    assert "3 lessons for a new task" in output
    assert [path.name for path in tmp_path.iterdir()] == [".erl"]


def test_installed_server_has_every_file_of_the_checkout(installed: Path) -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = packages["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    tracked = run("git", "ls-files", *wanted, folder=ROOT, HOME=os.environ.get("HOME", "/")).splitlines()
    (site,) = installed.parent.glob("lib/python*/site-packages")

    assert len(tracked) > 500
    assert [path for path in tracked if not (site / path).is_file()] == []


def test_installed_client_has_its_command(installed: Path, tmp_path: Path) -> None:
    assert "usage: erl" in run(installed / "erl", "--help", folder=tmp_path)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Take the steps of Containerfile in an empty tree, whose /app this returns; its Python is in ../venv."""
    tree = tmp_path_factory.mktemp("image")
    run(sys.executable, "-m", "venv", tree / "venv", folder=tree)
    path, app = f"{tree / 'venv' / 'bin'}:/usr/bin:/bin", tree / "app"
    taken = []
    for step, words in re.findall(r"^(ENV|RUN|WORKDIR|COPY) (.+)$", CONTAINERFILE, re.MULTILINE):
        taken.append(take_step(step, words, app, path))
    assert taken.count("RUN") == 2
    return app


def take_step(step: str, words: str, app: Path, path: str) -> str:
    """Do what one line says; creating a user would change this machine, and the variables only tune pip and Python."""
    match step, words.split():
        case "WORKDIR", [folder]:
            assert folder == f"/{app.name}"
            app.mkdir()
        case "COPY", [*sources, target]:
            copy(sources, app / target)
        case "RUN", [program, *_] if program != "useradd":
            # The home of the user who runs this has the cache of pip, without which it loads everything again.
            run("sh", "-c", words, folder=app, PATH=path, HOME=os.environ.get("HOME", "/"))
            return "RUN"
    return ""


def copy(sources: list[str], target: Path) -> None:
    """Copy as COPY does: a folder's content into the target, files beside each other."""
    for name in sources:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def test_image_passes_the_checks_of_a_deployment(image: Path) -> None:
    environment = {name: interpolate(value) for name, value in SERVICES["web"]["environment"].items()}

    run(
        "python",
        "manage.py",
        "check",
        "--deploy",
        "--fail-level",
        "WARNING",
        folder=image,
        **program(image),
        **environment,
    )


@pytest.mark.parametrize("service", ["web", "worker", "scheduler"])
def test_image_has_the_programs_of_the_services(image: Path, service: str) -> None:
    module = SERVICES[service]["command"][2]

    assert run("python", "-m", module, "--version", folder=image, **program(image))


def program(image: Path) -> dict[str, str]:
    """Return the variables with which the image's Python is found, and nothing is written beside the code."""
    return {"PATH": f"{image.parent / 'venv' / 'bin'}:/usr/bin:/bin", "ERL_HOME": str(image.parent / "home")}
