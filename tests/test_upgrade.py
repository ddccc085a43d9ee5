"""The data of released versions: each dump in tests/data/releases can be restored, and migrates to what is here."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db.migrations import CreateModel

from erl_site.embedded import postgres
from tests.stack import manage, migrated_home
from tests.test_migrations import is_new, our_migrations

ROOT = Path(__file__).resolve().parents[1]
RELEASES = sorted((ROOT / "tests" / "data" / "releases").glob("*.dump"))
# What a client and a reviewer see of it, read by a process of its own.
LOOK = """
import json
from django.test import Client
from memory.projects.actors import Actor
from memory.projects.api_keys import create_api_key
from memory.projects.models import ApiKey, Project
project = Project.objects.get()
key = create_api_key(project, client="test", scopes=ApiKey.Scope.values, by=Actor(label="test"))
client = Client(headers={"authorization": f"Bearer {key.token}", "host": "127.0.0.1"})
def get(path):
    return client.get(f"/api/v1/{path}").json()
task = {"task": "Change a flight of a customer who forgot the reservation ID", "task_id": "tau-airline"}
answer = client.post("/api/v1/retrieve", task, content_type="application/json").json()
run = get("agents")["results"][0]
print(json.dumps({
    "runs": get("trajectories")["pagination"]["total"],
    "statuses": sorted(lesson["status"] for lesson in get("heuristics")["results"]),
    "decisions": sorted(review["decision"] for review in get("reviews")["results"]),
    "lessons": len(answer["items"]),
    "passages": get("passages")["pagination"]["total"],
    "releases": get("releases")["pagination"]["total"],
    "approvals": [approval["status"] for approval in get("approvals")["results"]],
}))
"""
SEEN = {
    "1.0.0": {
        "runs": 25,
        "statuses": ["approved", "approved", "approved", "proposed", "rejected"],
        "decisions": ["approve", "approve", "approve", "reject"],
        "lessons": 3,
        "passages": 1,
        "releases": 1,
        "approvals": ["pending"],
    }
}

# How many rows the tables have, read by a process of its own.
COUNT = """
import json
from django.apps import apps
print(json.dumps({model._meta.db_table: model._base_manager.count() for model in apps.get_models()}))
"""
pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module", params=RELEASES, ids=lambda file: file.stem)
def restored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, django_db_setup: None
) -> Iterator[tuple[str, Path, str]]:
    """The name of a release, a home with its data, migrated, and what `restore` printed."""
    home = migrated_home(tmp_path_factory.mktemp("release"))
    try:
        output = manage(home, "restore", str(request.param), "--replace")
        yield request.param.stem, home, output
    finally:
        postgres.discard(home / "postgres")


def test_there_is_a_dump_of_every_release() -> None:
    assert [file.stem for file in RELEASES] == sorted(SEEN)


def test_data_of_a_release_are_whole_after_the_migration(restored: tuple[str, Path, str]) -> None:
    _, home, output = restored

    manage(home, "migrate", "--check")
    assert "0 faults" in output
    assert "0 broken" in output


def test_data_of_a_release_are_what_they_were(restored: tuple[str, Path, str]) -> None:
    release, home, _ = restored

    assert json.loads(manage(home, "shell", "--verbosity", "0", "-c", LOOK).splitlines()[-1]) == SEEN[release]


def tables_of_new_migrations() -> set[str]:
    """The tables of the last release that migrations after it change."""
    changed, made = set(), set()
    for migration in filter(is_new, our_migrations()):
        for operation in migration.operations:
            if isinstance(operation, CreateModel):
                made.add(f"{migration.app_label}_{operation.name_lower}")
            elif hasattr(operation, "model_name"):
                changed.add(f"{migration.app_label}_{operation.model_name.lower()}")
    return changed - made


def test_every_table_that_a_migration_changes_has_rows_in_the_backup(restored: tuple[str, Path, str]) -> None:
    _, home, _ = restored
    rows = json.loads(manage(home, "shell", "--verbosity", "0", "-c", COUNT).splitlines()[-1])

    assert [table for table in sorted(tables_of_new_migrations()) if not rows[table]] == []
