"""Registration of what other apps show on the review desk and the home page; memory imports none of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from memory.heuristics.models import Heuristic


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """A part of a page: a template and what it is drawn from."""

    template: str
    context: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One number on the home page. `link` is a path of the admin to the list behind it."""

    label: str
    value: str
    link: str = ""
    note: str = ""
    alarming: bool = False


@dataclass(kw_only=True, slots=True)
class _Registry:
    desk: list[Callable[[Heuristic], Panel | None]] = field(default_factory=list)
    figures: list[Callable[[Any], Iterable[Figure]]] = field(default_factory=list)


_registry = _Registry()


def add_desk_panel(make: Callable[[Heuristic], Panel | None]) -> None:
    """Show a panel for each heuristic that `make` returns one for. It may cost a fixed number of queries."""
    _registry.desk.append(make)


def add_figures(make: Callable[[Any], Iterable[Figure]]) -> None:
    """Show more numbers on the home page; `make` is given the signed-in user."""
    _registry.figures.append(make)


def draw_desk_panels(heuristic: Heuristic) -> list[Panel]:
    """Return what the other apps show for a heuristic."""
    return [panel for make in _registry.desk if (panel := make(heuristic)) is not None]


def collect_figures(user: Any) -> list[Figure]:
    """Return the numbers of the other apps."""
    return [figure for make in _registry.figures for figure in make(user)]
