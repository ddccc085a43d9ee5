"""What a suite is: data, units that can run independently, and a summary of their results."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluation.arms import SuiteArm

Progress = Callable[[str, int, int], None]  # what is being done, how many of how many
UnitResult = dict[str, Any]  # ready for JSON; durations are under "timing"
APPROVED_UNREAD = "The policy “evaluation” approves every lesson unread, inside the sandbox."


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The options of a run: everything that can change a figure."""

    suites: tuple[str, ...] = ("toolchoice", "replay")
    arms: tuple[str, ...] = ()  # empty: the suite's defaults
    seed: int = 0
    seeds: int = 1
    limit: int | None = None  # most tasks to test on
    experience: int | None = None  # most earlier tasks to learn from
    k: int = 5
    budget_tokens: int = 4000
    data: str = ""  # for "retrieval": a folder in BEIR layout, or a folder of them; for "replay": a file of runs
    project: str = ""  # for the suite "yours": slug of the project whose runs it reads
    environment: str = ""  # for the suite "yours": "package.module:Class" with the user's own tasks
    agent: str = ""  # for the suite "yours": the user's agent as a command
    tasks: str = ""  # for the suite "yours": the file with the tasks of that agent
    folder: str = ""  # in which the agent's command runs
    agent_timeout: int = 300  # seconds, for one try by the agent's command
    stage: bool = False  # stage releases instead of comparing arms
    trials: int = 3  # tries of each test task, in suites that have an environment
    concurrency: int = 4  # tasks tried at once
    max_calls: int | None = None  # of a language model, in total; once reached, no more tasks are started
    max_cost_usd: float | None = None
    # Not part of the stored configuration
    journal: str = ""  # file of language model calls, so that no call is paid for twice
    material: Any = None  # live data that a suite read before entering the sandbox

    def as_json(self) -> dict[str, Any]:
        # Without the material, which may be large and is not part of what was asked for.
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

    @property
    def data_folder(self) -> Path | None:
        return Path(self.data) if self.data else None

    @property
    def data_file(self) -> Path | None:
        """What the suite "replay" counts: --data where it is a file."""
        return Path(self.data) if self.data and not Path(self.data).is_dir() else None


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """What is printed with a suite's results, so that readers know what the figures can and cannot show."""

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
    """Units run in the sandbox; `summarise` needs no database."""

    about: About
    is_heavy = True  # worth a process of its own
    can_stage = False

    def units(self, options: Options) -> list[str]:
        """Return the names of the parts that can run independently.

        Raises:
            EvaluationError: the suite cannot run here or with these options.
        """
        raise NotImplementedError

    def arms(self, options: Options) -> list[SuiteArm]:
        """Return the arms that these options select, if the suite has arms."""
        return []

    def foresee_seconds(self, options: Options) -> float | None:
        """Return about how long the suite takes on two idle processors; None where it depends on the user's agent."""
        return None

    def asks_model(self, options: Options) -> bool:
        """Return whether the suite uses a language model, whatever its arms."""
        return False

    def collect(self, unit: str, options: Options) -> Any:
        """Read the live data that a unit needs, ready for JSON. No other method sees the live database."""
        return None

    def run_unit(self, unit: str, options: Options, progress: Progress) -> UnitResult:
        """Run one unit in the sandbox."""
        raise NotImplementedError

    def summarise(self, units: dict[str, UnitResult], options: Options) -> dict[str, Any]:
        """Combine the results of the units into the report."""
        raise NotImplementedError


@dataclass(kw_only=True, slots=True)
class ArmFigures:
    """One arm's figures, one entry per task, in task order."""

    success: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    lessons: list[int] = field(default_factory=list)
    retrieve_ms: list[float] = field(default_factory=list)
