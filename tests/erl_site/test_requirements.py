"""requirements.txt, used to build the image, matches pyproject.toml and pins hashes."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.stack import PACKAGES, ROOT

HINT = "Run: uv export --format requirements-txt --no-emit-project --no-dev --no-annotate -o requirements.txt"
TEXT = (ROOT / "requirements.txt").read_text(encoding="utf-8")
PINS = dict(re.findall(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", TEXT, re.MULTILINE))
DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]


def name_and_version(requirement: str) -> tuple[str, str]:
    name, _, version = requirement.partition(";")[0].partition("==")
    return re.sub(r"[-_.]+", "-", name.partition("[")[0].strip().lower()), version.strip()  # as PEP 503 has it


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


OPTIONAL = {"opentelemetry", "sandlock"}  # dependency groups, imported only where they are switched on


def test_development_tools_are_left_out() -> None:
    assert {"pytest", "mypy", "ruff", "playwright"} & PINS.keys() == set()


def test_every_imported_package_is_required() -> None:
    modules = [path for app in PACKAGES for path in (ROOT / app).rglob("*.py")]
    imported = {name for path in modules for name in imported_packages(path)} - sys.stdlib_module_names - set(PACKAGES)
    imported -= OPTIONAL
    distributions = packages_distributions()

    required = {name for name in imported if {normalised(found) for found in distributions[name]} & PINS.keys()}

    assert imported - required == set(), HINT


def imported_packages(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
