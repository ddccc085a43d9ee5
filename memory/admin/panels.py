"""Registration of what other apps show on the pages of this one; memory imports none of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils.safestring import SafeString

from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from memory.releases.models import Release


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """A part of a page: a template and what it is drawn from."""

    template: str
    context: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number on the home page, as a tile if it `is_large`. `link` is a path of the admin to the list behind it."""

    label: str
    value: str
    link: str = ""
    note: str = ""
    alarming: bool = False
    is_large: bool = False


@dataclass(kw_only=True, slots=True)
class _Registry:
    desk: list[tuple[str, Callable[[Heuristic], Panel | None]]] = field(default_factory=list)
    figures: list[Callable[[HttpRequest], Iterable[Figure]]] = field(default_factory=list)
    deployments: list[Callable[[Any, Project], Panel | None]] = field(default_factory=list)
    consequences: list[Callable[[Project], Iterable[str]]] = field(default_factory=list)
    releases: list[Callable[[Any, Release], Panel | None]] = field(default_factory=list)
    uplift: list[Callable[[Sequence[Release]], Mapping[UUID, SafeString]]] = field(default_factory=list)


_registry = _Registry()


def add_desk_panel(make: Callable[[Heuristic], Panel | None], *, tab: str = "evidence") -> None:
    """Show a panel in a tab for each heuristic that `make` returns one for. It may cost a fixed number of queries."""
    _registry.desk.append((tab, make))


def add_figures(make: Callable[[HttpRequest], Iterable[Figure]]) -> None:
    """Show more numbers on the home page; `make` counts in the chosen project."""
    _registry.figures.append(make)


def add_deployment_panel(make: Callable[[Any, Project], Panel | None]) -> None:
    """Show a panel on the page of a project's deployment; `make` is given the signed-in user."""
    _registry.deployments.append(make)


def add_consequences(make: Callable[[Project], Iterable[str]]) -> None:
    """Say before a promotion or a roll-back in a project what else it does, a sentence for each."""
    _registry.consequences.append(make)


def add_release_panel(make: Callable[[Any, Release], Panel | None]) -> None:
    """Show a panel on the page of a release; `make` is given the signed-in user."""
    _registry.releases.append(make)


def add_release_uplift(make: Callable[[Sequence[Release]], Mapping[UUID, SafeString]]) -> None:
    """Show in the list of releases what each does, as `make` draws it for all of a page."""
    _registry.uplift.append(make)


def draw_desk_panels(heuristic: Heuristic, *, tab: str) -> list[Panel]:
    """Return what the other apps show for a heuristic in a tab."""
    return [panel for name, make in _registry.desk if name == tab and (panel := make(heuristic)) is not None]


def collect_figures(request: HttpRequest) -> list[Figure]:
    """Return the numbers of the other apps."""
    return [figure for make in _registry.figures for figure in make(request)]


def draw_deployment_panels(user: Any, project: Project) -> list[Panel]:
    """Return what the other apps show about a project's deployment."""
    return [panel for make in _registry.deployments if (panel := make(user, project)) is not None]


def list_consequences(project: Project) -> list[str]:
    """Return what else a promotion or a roll-back does, as the other apps know it."""
    return [sentence for make in _registry.consequences for sentence in make(project)]


def draw_release_panels(user: Any, release: Release) -> list[Panel]:
    """Return what the other apps show about a release."""
    return [panel for make in _registry.releases if (panel := make(user, release)) is not None]


def draw_uplift(releases: Sequence[Release]) -> dict[UUID, SafeString]:
    """Return what each release does, as far as that was measured."""
    return {pk: drawn for make in _registry.uplift for pk, drawn in make(releases).items()}
