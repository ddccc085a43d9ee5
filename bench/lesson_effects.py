"""How often the comparison of lessons errs, and what it finds: `python -m bench.lesson_effects`.

Projects with known truth, ten lessons each, measured after every fiftieth unit as the hourly job does; no server. A
claim is a lesson said to help or to harm, at any look. Figures of all looks at once, computed with numpy, say at which
looks a claim is close; only these are given to the product. The figures of docs/experiments.md that name this command
come from here.
"""

import argparse
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from uuid import UUID

import django
import numpy as np
import numpy.typing as npt

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
django.setup()

from memory.effects.comparison import ComparedRuns, LessonEffect, attribute, find_inseparable  # noqa: E402
from memory.effects.interval import Share  # noqa: E402
from memory.effects.stratified import ALPHA, FEWEST_RUNS, TAU, Strata  # noqa: E402

LESSONS = [UUID(int=number) for number in range(1, 11)]
FIRST = LESSONS[0]
UNITS, EVERY = 3000, 50
HELD_OUT = 0.2
CLOSE = 1.2  # times α: a claim at that error rate is close enough to be looked at by the product
Numbers = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Choice = Callable[[np.random.Generator, Flags, Flags], Flags]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Units that come in, each with a task of some difficulty and the lessons that retrieval would choose for it.

    Attributes:
        base: success by family, on the easy tasks.
        choose: which lessons each task gets, by whether its family is the second and whether it is hard.
        effect: of the first lesson on a task of each family, in points of success.
        hard: how much less often the hard half of the tasks succeeds.
        is_drawn: whether a hold-out decides who gets lessons; otherwise a caller does, by how hard the task is.
        lost: share of the guided successes that are never reported.
    """

    base: tuple[float, ...] = (0.5,)
    choose: Choice
    effect: tuple[float, ...] = (0.0, 0.0)
    hard: float = 0.0
    is_drawn: bool = True
    lost: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Project:
    """The units of a project in the order in which they ended; `lessons` has a row for each, a column per lesson."""

    is_drawn: bool
    lessons: Flags
    stratum: npt.NDArray[np.int64]
    strata: int
    counts: Numbers  # guided, known, succeeded; held out, known, succeeded: 1 where a unit counts

    def compare(self, settled: Iterable[UUID], *, units: int) -> dict[UUID, ComparedRuns]:
        """Compare the lessons in blocks without some of them."""
        apart = [LESSONS.index(lesson) for lesson in settled]
        chosen = ~self.lessons[:units, apart].any(axis=1)
        lessons, counts = self.lessons[:units][chosen], self.counts[:units][chosen]
        strata = self.stratum[:units][chosen, None] == np.arange(self.strata)
        table = np.einsum("ul,us,uc->lsc", lessons, strata, counts, optimize=True).astype(int).tolist()
        return {
            lesson: ComparedRuns(
                by_client={"agent": sum((Strata.of(n, a, m, b) for _, n, a, _, m, b in rows), Strata())},
                reporting=sum((Strata.of(n, a, m, b) for n, a, _, m, b, _ in rows), Strata()),
            )
            for lesson, rows in zip(LESSONS, table, strict=True)
            if any(map(any, rows))
        }

    def measure(self, *, units: int) -> list[LessonEffect]:
        """Return what the product makes of the first units."""
        codes, guided = np.unique((self.lessons[:units] @ BITS)[self.counts[:units, 1] > 0], return_counts=True)
        together = find_inseparable(
            (read_block(code), count) for code, count in zip(codes.tolist(), guided.tolist(), strict=True)
        )

        def compare(settled: Iterable[UUID]) -> dict[UUID, ComparedRuns]:
            return self.compare(settled, units=units)

        compared = attribute(compare, together) if self.is_drawn else compare([])
        return [
            LessonEffect(
                heuristic_id=lesson,
                given=Share(successes=0, known=0),
                compared=comparison,
                among=len(compared) if self.is_drawn else 0,
                together_with=together.get(lesson, ()),
            )
            for lesson, comparison in compared.items()
        ]

    def trace(self) -> Flags:
        """Tell for each look whether a claim about the first lesson is close, and whether one about another is.

        Another can also be claimed where the effect of the first is settled, in blocks without it.
        """
        if not self.is_drawn:
            return np.zeros((len(self.counts) // EVERY, 2), bool)
        everywhere = self._find_close(self.lessons)
        elsewhere = self._find_close(self.lessons & ~self.lessons[:, :1])
        others = everywhere[:, 1:].any(axis=1) | (everywhere[:, 0] & elsewhere[:, 1:].any(axis=1))
        return np.stack([everywhere[:, 0], others], axis=1)

    def _find_close(self, lessons: Flags) -> Flags:
        """Compute by look and lesson what `ComparedRuns.find_sign` does for one, at a somewhat higher error rate."""
        columns = (self.stratum[:, None] == np.arange(self.strata))[:, :, None] * self.counts[:, None, :]
        by_look = columns.reshape(-1, EVERY, self.strata * 6)
        table = (lessons.reshape(-1, EVERY, len(LESSONS)).transpose(0, 2, 1).astype(float) @ by_look).cumsum(axis=0)
        exposed, n, a, held_out, m, b = np.moveaxis(table.reshape(*table.shape[:2], self.strata, 6), -1, 0)
        differs = is_sure(n, a, m, b, alpha=CLOSE * ALPHA / len(LESSONS))
        return differs & ~is_sure(exposed, n, held_out, m, alpha=ALPHA / CLOSE)


def is_sure(n: Numbers, a: Numbers, m: Numbers, b: Numbers, *, alpha: float) -> Flags:
    """Tell where the interval of `Strata` leaves out 0; strata are the last axis."""
    both = (n > 0) & (m > 0)
    n, a, m, b = (np.where(both, count, 0.0) for count in (n, a, m, b))
    whole, succeeded = np.maximum(n + m, 1e-9), a + b
    weight = (n * m / whole).sum(axis=-1)
    safe = np.maximum(weight, 1e-9)
    estimate = ((a * m - b * n) / whole).sum(axis=-1) / safe
    null = (n * m * succeeded * (whole - succeeded) / (whole * whole * np.maximum(whole - 1, 1e-9))).sum(axis=-1)
    spread = ((a * (m - b) + b * (n - a)) / (2 * whole)).sum(axis=-1)
    slope = ((n * n * b - m * m * a + n * m * (m - n) / 2) / whole**2).sum(axis=-1)
    variance = (np.maximum(null, estimate * slope + spread) + 0.25) / safe**2
    prior = TAU * TAU
    reach = variance * (variance + prior) / prior * (2 * np.log(1 / alpha) + np.log(1 + prior / variance))
    is_enough = np.minimum(n.sum(axis=-1), m.sum(axis=-1)) >= FEWEST_RUNS
    return np.asarray(is_enough & (estimate**2 > reach))


BITS = 1 << np.arange(len(LESSONS))


@cache
def read_block(code: int) -> tuple[UUID, ...]:
    """Return the lessons of a block from its bits."""
    return tuple(lesson for number, lesson in enumerate(LESSONS) if code >> number & 1)


def draw(kind: Kind, seed: int) -> Project:
    """Draw the units of a project."""
    random = np.random.default_rng(seed)
    family = random.integers(0, len(kind.base), UNITS)
    is_hard = random.random(UNITS) < 0.5
    lessons = kind.choose(random, family == 1, is_hard)
    guided = random.random(UNITS) >= (HELD_OUT if kind.is_drawn else np.where(is_hard, 0.9, 0.1))
    rate = np.take(kind.base, family) - kind.hard * is_hard + np.take(kind.effect, family) * (guided & lessons[:, 0])
    is_good = random.random(UNITS) < rate
    is_known = ~(guided & is_good & (random.random(UNITS) < kind.lost))
    side = np.stack([np.ones(UNITS, bool), is_known, is_known & is_good], axis=1)
    return Project(
        is_drawn=kind.is_drawn,
        lessons=lessons,
        stratum=family if kind.is_drawn else 2 * family + is_hard,
        strata=2 * len(kind.base),
        counts=np.concatenate([side & guided[:, None], side & ~guided[:, None]], axis=1).astype(float),
    )


def sample(random: np.random.Generator, number: int, *, start: int = 0) -> Flags:
    """Choose so many lessons at random for each unit, from one on."""
    order = random.random((UNITS, len(LESSONS))) + (np.arange(len(LESSONS)) < start)
    return order.argsort(axis=1).argsort(axis=1) < number


def choose_any(random: np.random.Generator, is_second: Flags, is_hard: Flags) -> Flags:
    """Give three lessons at random."""
    return sample(random, 3)


def choose_by_family(random: np.random.Generator, is_second: Flags, is_hard: Flags) -> Flags:
    """Give the first lesson on most tasks of one family and few of the other: pooled over both, it seems to do harm."""
    lessons = sample(random, 2, start=1)
    lessons[:, 0] = random.random(UNITS) < np.where(is_second, 0.1, 0.8)
    return lessons


def choose_by_difficulty(random: np.random.Generator, is_second: Flags, is_hard: Flags) -> Flags:
    """Give the first lesson on the hard tasks of a family, as retrieval does: nothing recorded says that they are."""
    lessons = sample(random, 2, start=2)
    lessons[:, 0], lessons[:, 1] = is_hard, ~is_hard
    return lessons


KINDS = {
    "no effect": Kind(choose=choose_any),
    "no effect, nearly all succeed": Kind(base=(0.97,), choose=choose_any),
    "no effect, families differ (Simpson)": Kind(base=(0.4, 0.9), choose=choose_by_family),
    "no effect, hard tasks get another lesson": Kind(base=(0.8,), hard=0.6, choose=choose_by_difficulty),
    "no effect, half of the guided successes are never reported": Kind(lost=0.5, choose=choose_any),
    "no effect, no hold-out, hard tasks are guided": Kind(
        base=(0.8,), hard=0.6, choose=choose_by_difficulty, is_drawn=False
    ),
    "+20 on hard tasks, +5 on easy ones (Simpson)": Kind(base=(0.4, 0.8), choose=choose_by_family, effect=(0.2, 0.05)),
    "+20, given on the hard tasks of a family": Kind(
        base=(0.8,), hard=0.6, choose=choose_by_difficulty, effect=(0.2, 0.2)
    ),
    "−20": Kind(choose=choose_any, effect=(-0.2, -0.2)),
}


@dataclass(kw_only=True)
class Found:
    """What was said about a project: after how many units the first lesson was said to help or harm, and another."""

    helps_after: int = 0
    harms_after: int = 0
    others: int = 0
    difference: float = 0.0
    usefulness: float = 0.5


def follow(kind: str, seed: int) -> Found:
    """Measure a project again and again."""
    project, totals = draw(KINDS[kind], seed), Found()
    for index, (is_first_close, is_other_close) in enumerate(project.trace().tolist(), 1):
        is_first_open = not (totals.helps_after or totals.harms_after)
        if (is_first_close and is_first_open) or (is_other_close and not totals.others):
            _note(totals, project.measure(units=index * EVERY), units=index * EVERY)
    (first,) = [effect for effect in project.measure(units=UNITS) if effect.heuristic_id == FIRST]
    totals.difference, totals.usefulness = first.difference or 0.0, first.usefulness
    return totals


def _note(found: Found, effects: Iterable[LessonEffect], *, units: int) -> None:
    for effect in effects:
        if effect.heuristic_id != FIRST:
            found.others = found.others or (units if effect.sign else 0)
        elif effect.sign > 0:
            found.helps_after = found.helps_after or units
        elif effect.sign < 0:
            found.harms_after = found.harms_after or units


def report(kind: str, number: int) -> str:
    """Return a line of the table."""
    results = [follow(kind, seed) for seed in range(number)]
    after = sorted(
        result.helps_after or result.harms_after for result in results if result.helps_after or result.harms_after
    )
    median = f", after {after[len(after) // 2]:,} units (median)" if after else ""
    mean = sum(result.difference for result in results) / number
    helps, harms, others = (
        sum(getattr(result, name) > 0 for result in results) for name in ("helps_after", "harms_after", "others")
    )
    return (
        f"{kind}: of {number:,} projects the first lesson is said to help in {helps}, to harm in {harms}{median}, "
        f"another to do either in {others}; difference {100 * mean:+.1f} points (mean), usefulness "
        f"{sorted(result.usefulness for result in results)[number // 2]:.2f} (median)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--number", type=int, default=1000, help="projects of each kind")
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all")
    options = parser.parse_args()
    for kind in options.kind or KINDS:
        print(report(kind, options.number), flush=True)


if __name__ == "__main__":
    main()
