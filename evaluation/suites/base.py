"""What a suite is: data, one or more units that can be run alone, and how their results are put together."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

Progress = Callable[[str, int, int], None]  # what is done, how many of how many
UnitResult = dict[str, Any]  # ready for JSON; what took how long stands under "timing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a run was asked for. Everything that changes a figure is here."""

    suites: tuple[str, ...] = ("toolchoice", "replay")
    arms: tuple[str, ...] = ()  # empty: the suite's own
    seed: int = 0
    seeds: int = 1
    limit: int | None = None  # tasks of a suite, at most
    experience: int | None = None  # earlier tasks to learn from, at most
    k: int = 5
    budget_tokens: int = 4000
    data: str = ""  # a folder in BEIR layout, or of such folders, for the suite "retrieval"

    def as_json(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Options":
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()
        }
        return cls(**values)

    @property
    def data_folder(self) -> Path | None:
        return Path(self.data) if self.data else None


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """What is printed with a suite's results, so that nobody reads more into them than they say."""

    name: str
    title: str
    data: str
    licence: str
    splits: str
    seeds: str
    proves: str
    reflector: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


class Suite(Protocol):
    """Units run in the sandbox; `summarise` needs no database and puts whatever units there are together."""

    about: About

    def units(self, options: Options) -> list[str]: ...

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult: ...

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]: ...


@dataclass(kw_only=True, slots=True)
class ArmFigures:
    """One arm's figures, one entry a task, in the order of the tasks."""

    success: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    lessons: list[int] = field(default_factory=list)
    retrieve_ms: list[float] = field(default_factory=list)
