"""requirements.txt, from which the image is built, is what pyproject.toml says, pinned by hash."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HINT = "Run: uv export --format requirements-txt --no-emit-project --no-dev --no-annotate -o requirements.txt"
TEXT = (ROOT / "requirements.txt").read_text(encoding="utf-8")
PINS = dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", TEXT, re.MULTILINE))
DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]


def name_and_version(requirement: str) -> tuple[str, str]:
    name, _, version = requirement.partition(";")[0].partition("==")
    return name.partition("[")[0].strip(), version.strip()


def test_direct_dependencies_have_the_versions_of_pyproject() -> None:
    wanted = dict(name_and_version(requirement) for requirement in DEPENDENCIES)

    assert {name: PINS.get(name) for name in wanted} == wanted, HINT


def test_every_requirement_is_pinned_by_hash() -> None:
    requirements = [entry for entry in re.split(r"^(?=\S)", TEXT, flags=re.MULTILINE) if entry and entry[0] != "#"]

    assert len(requirements) > len(DEPENDENCIES)
    assert [entry for entry in requirements if "--hash=sha256:" not in entry or "==" not in entry] == []


def test_no_address_is_named() -> None:
    assert "://" not in TEXT
    assert "index-url" not in TEXT


def test_development_tools_are_left_out() -> None:
    assert {"pytest", "mypy", "ruff", "playwright"} & PINS.keys() == set()
