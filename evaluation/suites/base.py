"""What a suite is: data, one or more units that can be run alone, and how their results are put together."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.arms import Arm

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
    project: str = ""  # slug of the project whose runs the suite "yours" reads
    environment: str = ""  # "package.module:Class" with the user's own tasks, for the suite "yours"
    trials: int = 3  # of each test task, where an environment plays it
    concurrency: int = 4  # tasks played at once
    max_calls: int | None = None  # of a language model, in all; reached, no more tasks are begun
    max_cost_usd: float | None = None
    # What does not change a figure, or is read anew from live data, and is not part of the configuration
    journal: str = ""  # where calls of a language model are written down, so that none is paid twice
    material: Any = None  # what a suite read of live data before the sandbox was entered

    def as_json(self) -> dict[str, Any]:
        values = asdict(replace(self, material=None))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if name not in ("journal", "material")
        }

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> "Options":
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()
        }
        return cls(**values)

    def with_journal(self, journal: str) -> "Options":
        return replace(self, journal=journal)

    def with_material(self, material: Any) -> "Options":
        return replace(self, material=material)

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


class Suite:
    """Units run in the sandbox; `summarise` needs no database and puts whatever units there are together."""

    about: About
    is_heavy = True  # worth a process of its own beside others

    def units(self, options: Options) -> list[str]:
        """Name the parts that can be run alone.

        Raises:
            EvaluationError: the suite cannot run with these options, or here.
        """
        raise NotImplementedError

    def arms(self, options: Options) -> list[Arm]:
        """Return the arms that would be asked, if the suite has any."""
        return []

    def asks_model(self, options: Options) -> bool:
        """Say whether a language model is asked, whatever the arms."""
        return False

    def collect(self, unit: str, options: Options) -> Any:
        """Read of live data what the unit needs, ready for JSON. The only method that sees the live database."""
        return None

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        """Run one part in the sandbox."""
        raise NotImplementedError

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        """Return what is reported."""
        raise NotImplementedError


@dataclass(kw_only=True, slots=True)
class ArmFigures:
    """One arm's figures, one entry a task, in the order of the tasks."""

    success: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    lessons: list[int] = field(default_factory=list)
    retrieve_ms: list[float] = field(default_factory=list)
