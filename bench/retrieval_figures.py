"""What retrieval_quality measured of a set, and the figures that follow from it.

Two constants decide the order of lessons that have no earlier tasks, the weight of meaning against words and the weight
of names, and one whether a task is given anything, the floor. All are in use as memory/retrieval has them. To judge a
choice by a set that had no say in it, each set is also given the weights and the floor that are best on all *other*
sets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from bench.plots import Bar
from memory.limits import DEFAULT_TOP_K
from memory.retrieval.ranking import FLOORS, RELEVANT_SHARE
from memory.retrieval.scoring import MEANING_WEIGHT, NAMES_WEIGHT

MEANING_WEIGHTS = (0.3, 0.4, 0.45, 0.5, 0.6)
NAMES_WEIGHTS = (0.0, 0.1, 0.15, 0.2, 0.3)
PLAIN = ("bm25", "dense", "rrf", "nearest", "nearer")
KEPT_RECALL = 0.98  # of the recall of as many lessons without a cut
ANSWERED = 0.98  # of the tasks of a set that should be given something
LABELS = {"s": "one", "m": "two"}


class Rule(NamedTuple):
    """A rule for what is injected: at most `top_k` lessons, none less relevant than `share` of the best."""

    top_k: int
    share: float

    def __str__(self) -> str:
        return f"{self.top_k} at most, {self.share} of the best"

    def choose(self, ranking: Sequence[tuple[float, float, bool, int]]) -> list[tuple[float, float, bool, int]]:
        fitting = [hit for hit in ranking if hit[1] >= FLOORS["hybrid"]]
        best = max((hit[0] for hit in fitting), default=0.0)
        return [hit for hit in fitting if hit[0] >= self.share * best][: self.top_k]


FORMER_RULE = Rule(20, 0.0)
RULE_IN_USE = Rule(DEFAULT_TOP_K, RELEVANT_SHARE)


class Weights(NamedTuple):
    """What meaning and names count for in a score."""

    meaning: float
    names: float

    def __str__(self) -> str:
        return f"{self.meaning}, names {self.names}"


IN_USE = Weights(MEANING_WEIGHT, NAMES_WEIGHT)
ALL_WEIGHTS = [Weights(*pair) for pair in product(MEANING_WEIGHTS, NAMES_WEIGHTS)]


@dataclass(kw_only=True)
class Figures:
    """What was measured of a set.

    `scores` are nDCG@10 of each query, by mode and by plain search, `by_weights` those of hybrid by `Weights` as text,
    `groups` the places of each kind of query. `fits` says how similar the best lesson is to each task of the set,
    `foreign_fits` to the tasks of others, by their set. `asked` are empty blocks and times, by mode. `best` has the
    first lessons for each query, each with its score, how well it fits, whether it is relevant and its tokens, and
    `relevant` how many lessons are.
    """

    set: str
    experience: bool
    groups: dict[str, list[int]]
    scores: dict[str, list[float]] = field(default_factory=dict)
    by_weights: dict[str, list[float]] = field(default_factory=dict)
    fits: list[float] = field(default_factory=list)
    foreign_fits: dict[str, list[float]] = field(default_factory=dict)
    asked: dict[str, dict[str, float]] = field(default_factory=dict)
    best: list[list[tuple[float, float, bool, int]]] = field(default_factory=list)
    relevant: list[int] = field(default_factory=list)

    def describe_mode(self, mode: str) -> Iterator[dict[str, Any]]:
        """Yield nDCG@10 of every kind of query in a mode, and its distance from the best plain search."""
        for group, members in self.groups.items():
            best = self.find_best_plain(members)
            values = np.array(self.scores[mode])
            yield {
                "set": self.set,
                "experience": self.experience,
                "queries": group,
                "n": len(members),
                "mode": mode,
                **describe("ndcg_at_10", values[members]),
                **{name: round(self.get_mean(name, members), 4) for name in PLAIN if name in self.scores},
                "best": best,
                **describe("difference", (values - self.scores[best])[members]),
                **self.asked[mode],
            }

    def describe_left_out(self, weights: Weights) -> Iterator[dict[str, Any]]:
        """Yield nDCG@10 with weights that were chosen without this set, and its distance likewise."""
        for group, members in self.groups.items():
            best = self.find_best_plain(members)
            values = np.array(self.by_weights[str(weights)])
            yield {
                "set": self.set,
                "queries": group,
                "weights": str(weights),
                **describe("left_out", values[members]),
                "baseline": round(self.get_mean(best, members), 4),
                **describe("gain", (values - self.scores[best])[members]),
            }

    def describe_names(self) -> Iterator[dict[str, Any]]:
        """Yield what names add to nDCG@10 of every kind of query."""
        added = np.array(self.by_weights[str(IN_USE)]) - self.by_weights[str(IN_USE._replace(names=0.0))]
        for group, members in self.groups.items():
            yield {"set": self.set, "queries": group, **describe("names_add", added[members])}

    def describe_answers(self, floor: float) -> dict[str, Any]:
        """Return the share of own tasks that are given something, and of others that are given nothing, by set."""
        nothing = {name: _share(fits, below=floor) for name, fits in self.foreign_fits.items() if name != self.set}
        return {
            "set": self.set,
            "floor": floor,
            "answered": round(1 - _share(self.fits, below=floor), 4),
            "foreign_empty": round(float(np.mean([*nothing.values()])), 4) if nothing else None,
            "foreign_empty_by_set": nothing,
        }

    def describe_block(self, rule: "Rule") -> dict[str, Any]:
        """Return what a rule puts into the blocks of all queries, and what share of the relevant lessons it finds."""
        lessons, good, tokens, recalls = 0, [], 0, []
        for ranking, relevant in zip(self.best, self.relevant, strict=True):
            block = rule.choose(ranking)
            lessons += len(block)
            tokens += sum(hit[3] for hit in block)
            good.append(sum(hit[2] for hit in block))
            recalls.append(good[-1] / relevant)
        return {
            "set": self.set,
            "rule": str(rule),
            "block_lessons": round(lessons / len(self.best), 2),
            "block_precision": round(sum(good) / max(lessons, 1), 4),
            **describe("block_recall", np.array(recalls)),
            "block_tokens": round(tokens / len(self.best)),
        }

    def find_best_plain(self, members: Sequence[int]) -> str:
        """Return the plain search that is best on some queries."""
        return max((name for name in PLAIN if name in self.scores), key=lambda name: self.get_mean(name, members))

    def get_mean(self, name: str, members: Sequence[int]) -> float:
        return float(np.array(self.scores[name])[members].mean())

    def get_mean_by_weights(self, weights: Weights) -> float:
        """Return the mean over the kinds of queries."""
        return float(np.mean([np.array(self.by_weights[str(weights)])[group].mean() for group in self.groups.values()]))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def describe_all(sets: Sequence[Figures], modes: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows of every set in every mode, then those of each set left out."""
    for row in sets:
        for mode in modes:
            yield from row.describe_mode(mode)
    weighed = [row for row in sets if row.by_weights]
    blocks = [row for row in sets if row.best]
    for row in blocks:
        others = [other for other in blocks if other.set != row.set]
        rules = (FORMER_RULE, Rule(DEFAULT_TOP_K, 0.0), RULE_IN_USE, Rule(DEFAULT_TOP_K, choose_share(others)))
        yield from (row.describe_block(rule) for rule in dict.fromkeys(rules))
    for row in weighed:
        # The set itself has no say in what is chosen for it.
        others = [other for other in weighed if other is not row]
        yield from row.describe_left_out(choose_weights(others))
    for row in weighed:
        yield from row.describe_names()
    for row in weighed:
        yield row.describe_answers(FLOORS["hybrid"])
    for row in weighed:
        others = [other for other in weighed if other.set != row.set]
        yield row.describe_answers(choose_floor(others)) | {"left_out_floor": True}


def choose_weights(others: Sequence[Figures]) -> Weights:
    """Return the weights that are best on these sets; of equals those nearest to the ones in use."""
    by_distance = sorted(
        ALL_WEIGHTS, key=lambda pair: abs(pair.meaning - MEANING_WEIGHT) + abs(pair.names - NAMES_WEIGHT)
    )
    # `max` keeps the first of equals, which the sort has made the nearest.
    return max(by_distance, key=lambda weights: sum(other.get_mean_by_weights(weights) for other in others))


def choose_floor(others: Sequence[Figures]) -> float:
    """Return the highest floor at which ANSWERED of these sets' own tasks are given something; 0 without any."""
    floors = [round(0.01 * step, 2) for step in range(100)]
    return max(
        (
            floor
            for floor in floors
            if others and np.mean([1 - _share(o.fits, below=floor) for o in others]) >= ANSWERED
        ),
        default=0.0,
    )


def choose_share(others: Sequence[Figures]) -> float:
    """Return the highest share at which the blocks of these sets keep KEPT_RECALL of the relevant lessons."""
    shares = [round(0.05 * step, 2) for step in range(20)]
    before = sum(other.describe_block(Rule(DEFAULT_TOP_K, 0.0))["block_recall"] for other in others)
    return max(
        (
            share
            for share in shares
            if others
            and sum(other.describe_block(Rule(DEFAULT_TOP_K, share))["block_recall"] for other in others)
            >= KEPT_RECALL * before
        ),
        default=0.0,
    )


def _share(values: Sequence[float], *, below: float) -> float:
    return float(np.mean(np.array(values) < below)) if values else 0.0


def get_interval(values: np.ndarray, *, resamples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """95% percentile bootstrap of the mean."""
    generator = np.random.default_rng(seed)
    means = [values[generator.integers(0, len(values), len(values))].mean() for _ in range(resamples)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def describe(name: str, values: np.ndarray) -> dict[str, float]:
    """Return the mean of some queries' values by its name, and its interval."""
    low, high = get_interval(values)
    return {
        name: round(float(values.mean()), 4),
        f"{name}_low": round(low, 4),
        f"{name}_high": round(high, 4),
    }


def write_row(row: dict[str, Any]) -> str:
    """Return a row as a line."""
    if "answered" in row:
        floor = f"floor {row['floor']:.2f} {'(left out)' if 'left_out_floor' in row else '(in use)'}"
        nothing = "-" if row["foreign_empty"] is None else f"{row['foreign_empty']:.3f}"
        return f"{row['set']:24} {floor}: own tasks answered {row['answered']:.3f}, foreign tasks empty {nothing}"
    if "rule" in row:
        return (
            f"{row['set']:24} {row['rule']:30}: {row['block_lessons']} lessons, {row['block_precision']:.3f} "
            f"relevant, recall {row['block_recall']:.3f} ({row['block_recall_low']:.3f}–"
            f"{row['block_recall_high']:.3f}), {row['block_tokens']} tokens"
        )
    if "names_add" in row:
        interval = f"({row['names_add_low']:+.4f} to {row['names_add_high']:+.4f})"
        return f"{row['set']:24} {row['queries']:4} names add {row['names_add']:+.4f} {interval}"
    if "left_out" in row:
        return (
            f"{row['set']:24} {row['queries']:4} left out: {row['left_out']:.3f} ({row['left_out_low']:.3f}–"
            f"{row['left_out_high']:.3f}), gain {row['gain']:+.3f} ({row['gain_low']:+.3f} to "
            f"{row['gain_high']:+.3f}) with meaning {row['weights']}"
        )
    plain = " ".join(f"{name} {row[name]:.3f}" for name in PLAIN if name in row)
    return (
        f"{row['set']:24} {row['queries']:4} n={row['n']:<5} {row['mode']:10} {row['ndcg_at_10']:.3f} "
        f"({row['ndcg_at_10_low']:.3f}–{row['ndcg_at_10_high']:.3f})  {plain}  best {row['best']} "
        f"{row['difference']:+.3f} ({row['difference_low']:+.3f} to {row['difference_high']:+.3f})  "
        f"empty blocks {row['empty_blocks']:.3f}  p50 {row['p50_ms']} ms"
    )


def write_means(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the means over all sets."""
    hybrid = [row for row in rows if row.get("mode", "hybrid") == "hybrid"]
    for name in ("gain", "difference", "names_add"):
        if values := [row[name] for row in hybrid if name in row]:
            yield f"mean {name.replace('_', ' ')} over {len(values)} kinds of queries: {np.mean(values):+.4f}"
    for is_left_out in (True, False):
        if answers := [row for row in rows if "answered" in row and ("left_out_floor" in row) == is_left_out]:
            empty = [row["foreign_empty"] for row in answers if row["foreign_empty"] is not None]
            words = f"own tasks answered {np.mean([row['answered'] for row in answers]):.3f}, foreign tasks empty"
            yield f"mean with the floor {'left out' if is_left_out else 'in use'}: {words} {np.mean(empty or [0]):.3f}"


def make_block_bars(sets: Sequence[Figures]) -> list[Bar]:
    """Return for each set the share of injected lessons that are relevant, and of the relevant that are found."""
    bars = []
    for figures in sets:
        for rule, name in ((FORMER_RULE, "up to 20"), (RULE_IN_USE, "in use")):
            row = figures.describe_block(rule)
            precision = row["block_precision"]
            group = figures.set.removesuffix("_retrieval")
            bars += [
                Bar(group=group, series=f"relevant, {name}", value=precision, low=precision, high=precision),
                Bar(
                    group=group,
                    series=f"found, {name}",
                    value=row["block_recall"],
                    low=row["block_recall_low"],
                    high=row["block_recall_high"],
                ),
            ]
    return bars


def make_bars(rows: Sequence[dict[str, Any]]) -> list[Bar]:
    """Return a group of bars for each kind of query: what was left out first, then what is in use."""
    used = {(row["set"], row["queries"]): row for row in rows if row.get("mode") == "hybrid"}
    bars = []
    for row in rows:
        if "left_out" in row:
            kind = LABELS.get(row["queries"], row["queries"])
            group = row["set"].removesuffix("_retrieval") + ("" if kind == "all" else f", {kind}")
            in_use = used[row["set"], row["queries"]]
            for series, name, source in (("left out", "left_out", row), ("in use", "ndcg_at_10", in_use)):
                bars.append(
                    Bar(
                        group=group,
                        series=series,
                        value=source[name],
                        low=source[f"{name}_low"],
                        high=source[f"{name}_high"],
                        baseline=row["baseline"],
                    )
                )
    return bars
