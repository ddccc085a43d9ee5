"""How often the comparison of lessons errs, and what it finds: `python -m tests.bench.lesson_effects`.

Projects with known truth, ten lessons each, measured after every fiftieth unit as the hourly job does; no server. A
claim is a lesson said to help or to harm, at any look. The figures of docs/experiments.md that name this command come
from here.
"""

import argparse
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
django.setup()

from memory.effects.comparison import Compared, LessonEffect, attribute, find_inseparable  # noqa: E402
from memory.effects.interval import Share  # noqa: E402
from memory.effects.stratified import Strata  # noqa: E402

LESSONS = [UUID(int=number) for number in range(1, 11)]
FIRST = LESSONS[0]
UNITS, EVERY = 3000, 50
HELD_OUT = 0.2
Stratum = tuple[str, str]
Counts = dict[tuple[frozenset[UUID], Stratum], list[int]]


@dataclass(kw_only=True)
class Project:
    """Units that come in, each with a task of some difficulty and the lessons that retrieval would choose for it.

    Args:
        effect: of the first lesson on a task of a family, in points of success.
        choose: which lessons a task gets, by its family and whether it is hard.
        is_drawn: whether a hold-out decides who gets lessons; otherwise a caller does, by how hard the task is.
        lost: share of the guided successes that are never reported.
    """

    random: Random
    base: dict[str, float]
    effect: dict[str, float] = field(default_factory=dict)
    choose: Callable[[Random, str, bool], list[UUID]]
    is_drawn: bool = True
    hard: float = 0.0
    lost: float = 0.0
    counts: Counts = field(default_factory=lambda: defaultdict(lambda: [0] * 6))

    def send(self, family: str) -> None:
        """Let one unit end."""
        is_hard = self.random.random() < 0.5
        lessons = self.choose(self.random, family, is_hard)
        is_given = self.random.random() >= (HELD_OUT if self.is_drawn else 0.9 if is_hard else 0.1)
        rate = self.base[family] - self.hard * is_hard
        if is_given and FIRST in lessons:
            rate += self.effect.get(family, 0.0)
        is_good = self.random.random() < rate
        is_known = not (is_given and is_good and self.random.random() < self.lost)
        counts = self.counts[frozenset(lessons), (family, "" if self.is_drawn else f"task {is_hard}")]
        side = 0 if is_given else 3
        counts[side] += 1
        counts[side + 1] += is_known
        counts[side + 2] += is_known and is_good

    def compare(self, settled: Iterable[UUID]) -> dict[UUID, Compared]:
        """Compare the lessons in blocks without some of them."""
        apart = frozenset(settled)
        strata: dict[UUID, dict[Stratum, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0] * 6))
        for (block, stratum), counts in self.counts.items():
            for lesson in block if not block & apart else ():
                strata[lesson][stratum] = [a + b for a, b in zip(strata[lesson][stratum], counts, strict=True)]
        return {
            lesson: Compared(
                by_client={"agent": sum((Strata.of(n, a, m, b) for _, n, a, _, m, b in rows.values()), Strata())},
                reporting=sum((Strata.of(n, a, m, b) for n, a, _, m, b, _ in rows.values()), Strata()),
            )
            for lesson, rows in strata.items()
        }

    def measure(self) -> list[LessonEffect]:
        """Return what the product makes of the units so far."""
        blocks: dict[frozenset[UUID], int] = defaultdict(int)
        for (block, _), counts in self.counts.items():
            blocks[block] += counts[1]
        together = find_inseparable((sorted(block), count) for block, count in blocks.items())
        compared = attribute(self.compare, together) if self.is_drawn else self.compare([])
        return [
            LessonEffect(
                heuristic_id=lesson,
                given=Share(successes=0, known=0),
                compared=each,
                among=len(compared) if self.is_drawn else 0,
                together_with=together.get(lesson, ()),
            )
            for lesson, each in compared.items()
        ]


def choose_any(random: Random, family: str, is_hard: bool) -> list[UUID]:
    """Give three lessons at random."""
    return random.sample(LESSONS, 3)


def choose_by_family(random: Random, family: str, is_hard: bool) -> list[UUID]:
    """Give the first lesson on most hard tasks and few easy ones: pooled over families, it seems to do harm."""
    first = [FIRST] if random.random() < (0.8 if family == "hard" else 0.1) else []
    return first + random.sample(LESSONS[1:], 2)


def choose_by_difficulty(random: Random, family: str, is_hard: bool) -> list[UUID]:
    """Give the first lesson on the hard tasks of a family, as retrieval does: nothing recorded says that they are."""
    return [FIRST if is_hard else LESSONS[1], *random.sample(LESSONS[2:], 2)]


ONE, TWO = {"shop": 0.5}, {"hard": 0.4, "easy": 0.9}
# What each kind of project is made of.
KINDS: dict[str, dict[str, object]] = {
    "no effect": {"base": ONE, "choose": choose_any},
    "no effect, nearly all succeed": {"base": {"shop": 0.97}, "choose": choose_any},
    "no effect, families differ (Simpson)": {"base": TWO, "choose": choose_by_family},
    "no effect, hard tasks get another lesson": {"base": {"shop": 0.8}, "hard": 0.6, "choose": choose_by_difficulty},
    "no effect, half of the guided successes are never reported": {"base": ONE, "lost": 0.5, "choose": choose_any},
    "no effect, no hold-out, hard tasks are guided": {
        "base": {"shop": 0.8},
        "hard": 0.6,
        "choose": choose_by_difficulty,
        "is_drawn": False,
    },
    "+20 on hard tasks, +5 on easy ones (Simpson)": {
        "base": {"hard": 0.4, "easy": 0.8},
        "choose": choose_by_family,
        "effect": {"hard": 0.2, "easy": 0.05},
    },
    "+20, given on the hard tasks of a family": {
        "base": {"shop": 0.8},
        "hard": 0.6,
        "choose": choose_by_difficulty,
        "effect": {"shop": 0.2},
    },
    "−20": {"base": ONE, "choose": choose_any, "effect": {"shop": -0.2}},
}


@dataclass(kw_only=True)
class Found:
    """What was said about a project: after how many units the first lesson was said to help or harm, and another."""

    helps_after: int = 0
    harms_after: int = 0
    others: int = 0
    difference: float = 0.0
    usefulness: float = 0.5


def follow(kind: str, seed: int, *, units: int = UNITS) -> Found:
    """Send the units of a project and measure it again and again."""
    random = Random(f"{kind} {seed}")
    project = Project(random=random, **KINDS[kind])  # type: ignore[arg-type]
    families, found = sorted(project.base), Found()
    for number in range(1, units + 1):
        project.send(random.choice(families))
        if number % EVERY:
            continue
        for effect in project.measure():
            if effect.heuristic_id != FIRST:
                found.others = found.others or (number if effect.sign else 0)
            elif effect.sign > 0:
                found.helps_after = found.helps_after or number
            elif effect.sign < 0:
                found.harms_after = found.harms_after or number
    (first,) = [effect for effect in project.measure() if effect.heuristic_id == FIRST]
    found.difference, found.usefulness = first.difference or 0.0, first.usefulness
    return found


def report(kind: str, number: int, *, units: int = UNITS) -> str:
    """Return a line of the table."""
    found = [follow(kind, seed, units=units) for seed in range(number)]
    after = sorted(each.helps_after or each.harms_after for each in found if each.helps_after or each.harms_after)
    median = f", after {after[len(after) // 2]:,} units (median)" if after else ""
    mean = sum(each.difference for each in found) / number
    helps, harms, others = (
        sum(getattr(each, name) > 0 for each in found) for name in ("helps_after", "harms_after", "others")
    )
    return (
        f"{kind}: of {number:,} projects the first lesson is said to help in {helps}, to harm in {harms}{median}, "
        f"another to do either in {others}; difference {100 * mean:+.1f} points (mean), usefulness "
        f"{sorted(each.usefulness for each in found)[number // 2]:.2f} (median)"
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
