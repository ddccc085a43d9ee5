"""Which project a command works on."""

from argparse import ArgumentParser

from django.core.management.base import CommandError

from memory.projects.models import Project

MAX_NAMED = 20


def add_project_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--project", metavar="SLUG", help="the project; may be left out where there is only one")


def get_project(slug: str | None) -> Project:
    """Return the named project, or the only one; raise CommandError saying which there are."""
    named = ", ".join(Project.objects.values_list("slug", flat=True)[:MAX_NAMED])
    if slug:
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            raise CommandError(f"There is no project {slug!r} (known: {named or 'none yet'}).")
        return project
    projects = list(Project.objects.all()[:2])
    if not projects:
        raise CommandError("There is no project yet. Run manage.py quickstart, or create_api_key --create-project.")
    if len(projects) > 1:
        raise CommandError(f"Name the project with --project SLUG (known: {named}).")
    return projects[0]
