"""Read a folder that `export_project` wrote into a project: all of it in one transaction, or nothing.

Rows go through the triggers of the database like all others, in an order that these allow: hashes are computed again,
a decision has to name the hash of its revision, and what is in force needs its approval.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import structlog
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, transaction

from memory.projects.actors import Actor, name_actor
from memory.projects.models import Project
from memory.transfer.export import Progress, find_tables
from memory.transfer.manifest import BrokenExport, Manifest, TransferError, check_file, choose_families, read_manifest
from memory.transfer.rows import RowLoader, describe_error, execute

log = structlog.get_logger(__name__)

_SETTINGS_KEPT = ("id", "slug")


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportedProject:
    """What was taken in: the project, and how many rows of each table."""

    project: Project
    rows: dict[str, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportOptions:
    """How an export is taken in.

    `slug` names the project, "" the one of the export; it is made if it does not exist. `families` are all where none
    is named. With `same_people` the accounts here have the names that they have there; otherwise a label such as
    user:ana becomes import:user:ana, since ana may be another person here. With `redacted_only`, rows of agents'
    words that hold what looks like a secret are refused.
    """

    slug: str = ""
    families: tuple[str, ...] = ()
    same_people: bool = False
    redacted_only: bool = False


def import_project(
    folder: Path,
    *,
    by: Actor,
    options: ImportOptions,
    dry_run: bool = False,
    progress: Progress = lambda table, rows: None,
) -> ImportedProject:
    """Take an export in. A dry run does all of it, and then takes it back.

    Raises:
        BrokenExport: the folder is not what was exported.
        RowsRefused: they are there already, refer to others that are not, or are not what was approved.
    """
    manifest = read_manifest(folder)
    families = choose_families(manifest, list(options.families))
    files = {file.table: file for file in manifest.files}
    for table in find_tables(families):
        if table.name in files:  # a table without rows has no file
            check_file(folder, files[table.name])
    with transaction.atomic(), connection.cursor() as cursor:
        # A large project takes longer than any limit for requests.
        cursor.execute("SET LOCAL statement_timeout = 0")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SET LOCAL timezone = 'UTC'")
        name_actor(by)
        project = _get_project(manifest, options.slug)
        load = RowLoader(
            folder=folder,
            files=files,
            project=project,
            families=families,
            same_people=options.same_people,
            redacted_only=options.redacted_only,
            progress=progress,
        )
        load.run()
        if "settings" in families:
            _take_settings(project, manifest)
        load.finish()
        if dry_run:
            transaction.set_rollback(True)
    if not dry_run:
        log.info("project_imported", project_id=str(project.pk), rows=sum(load.rows.values()))
    return ImportedProject(project=project, rows=load.rows)


def _get_project(manifest: Manifest, slug: str) -> Project:
    """Return the project to import into; make it, with its id if that is free."""
    slug = slug or str(manifest.project.get("slug", ""))
    project = Project.objects.filter(slug=slug).first()
    if project is None:
        own_id = {} if Project.objects.filter(pk=manifest.project_id).exists() else {"id": manifest.project_id}
        project = Project(slug=slug, name=str(manifest.project.get("name") or slug), **own_id)
        try:
            project.full_clean()
        except ValidationError as error:
            raise BrokenExport(f"The project {slug!r} cannot be made: {' '.join(error.messages)}") from None
        project.save(force_insert=True)
    check_takes_decisions(project)
    return project


def check_takes_decisions(project: Project) -> None:
    """Refuse a project that takes no decisions from elsewhere. Raises TransferError."""
    if project.four_eyes:
        # Two people of this project have taken none of them.
        raise TransferError(
            f"The project {project.slug} asks for two reviewers, so nothing may bring decisions into it. Import into a "
            "project that does not exist yet."
        )


def _take_settings(project: Project, manifest: Manifest) -> None:
    """Give the project the settings of the export, last: two reviewers are asked for from then on."""
    known = {model_field.column for model_field in Project._meta.local_concrete_fields}
    columns = sorted((manifest.project.keys() & known) - {*_SETTINGS_KEPT})
    if unknown := manifest.project.keys() - known:
        raise BrokenExport(f"The manifest has settings that are not known here: {', '.join(sorted(unknown))}.")
    sets = ", ".join(f"{column} = r.{column}" for column in columns)
    try:
        rows = "jsonb_populate_record(NULL::memory_project, %s) r"
        execute(
            f"UPDATE memory_project p SET {sets} FROM {rows} WHERE p.id = %s",  # noqa: S608 - names of columns
            [json.dumps(manifest.project), project.pk],
        )
        project.refresh_from_db()
        project.clean_fields()
    except (DatabaseError, ValidationError) as error:
        said = describe_error(error) if isinstance(error, DatabaseError) else " ".join(error.messages)
        raise BrokenExport(f"The settings in the manifest are not valid: {said}") from None
