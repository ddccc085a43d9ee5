"""Report what the offline reflector proposes for recorded runs.

`python -m bench.rules_report PATH … [--draw N] [--seed N] [--lessons N]` takes files of runs and folders of such
files. It prints how many distinct proposals each detector makes and from how many runs, how many failed runs get a
proposal, and the time per run; then N distinct proposals drawn by the seed, unedited, each with the first run that
shows it. A run is compared with the other runs of its family in the same file, at most ten of each outcome.
"""

import argparse
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
os.environ.setdefault("ERL_ENV_FILE", os.devnull)

import django

django.setup()

from memory.errors import UnreadableFile  # noqa: E402
from memory.intake.files import as_episode, read_entries  # noqa: E402
from memory.runs.episode import FAILURE_SCORE, Episode  # noqa: E402
from reflection.reflectors.base import ProposedLesson  # noqa: E402
from reflection.reflectors.nearest import MAX_FAMILY_RUNS  # noqa: E402
from reflection.reflectors.rules import RulesReflector  # noqa: E402

SUFFIXES = (".jsonl", ".json", ".traj")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A lesson and the run it was found in."""

    lesson: ProposedLesson
    run: str
    outcome: str

    @property
    def words(self) -> tuple[str, str, str]:
        text = self.lesson.text
        return text.trigger, text.guideline, text.avoid


def files_of(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES) if path.is_dir() else [path]
        yield from inside


def read_runs(path: Path) -> list[tuple[str, Episode]]:
    """Return the runs of a file with their ids, each with other runs of its family."""
    try:
        entries = [entry.data for entry in read_entries(path) if entry.data is not None]
    except UnreadableFile as refusal:
        print(f"{path.name}: {refusal}")
        return []
    runs = [(str(data["external_id"]), as_episode(data)) for data in entries]
    families: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for _, episode in runs:
        if episode.task_id and episode.outcome in ("success", "failure"):
            families[episode.task_id, episode.outcome].append(episode)
    return [(run_id, replace(episode, family=_family_of(episode, families))) for run_id, episode in runs]


def _family_of(episode: Episode, families: dict[tuple[str, str], list[Episode]]) -> tuple[Episode, ...]:
    chosen: list[Episode] = []
    for outcome in ("success", "failure"):
        # By identity: equal runs of a family are different runs.
        others = [other for other in families[episode.task_id, outcome] if other is not episode]
        chosen += others[:MAX_FAMILY_RUNS]
    return tuple(chosen) if episode.task_id else ()


def is_failure(episode: Episode) -> bool:
    if episode.outcome in ("success", "failure"):
        return episode.outcome == "failure"
    return episode.score is not None and episode.score < FAILURE_SCORE


def report(paths: list[Path], *, lessons: int) -> list[Found]:
    reflector = RulesReflector(max_lessons=lessons)
    everything: list[Found] = []
    print(f"{'file':36} {'runs':>5} {'failed':>7} {'with a proposal':>16} {'ms/run':>7}")
    for path in files_of(paths):
        runs = read_runs(path)
        start = perf_counter()
        results = [(run_id, episode, reflector.reflect(episode, near=()).lessons) for run_id, episode in runs]
        milliseconds = (perf_counter() - start) * 1000 / max(len(runs), 1)
        failed = [proposed for _, episode, proposed in results if is_failure(episode)]
        print(
            f"{path.name[-36:]:36} {len(runs):5} {len(failed):7} {sum(map(bool, failed)):16} {milliseconds:7.1f}",
        )
        everything += [
            Found(lesson=lesson, run=run_id, outcome=episode.outcome)
            for run_id, episode, proposed in results
            for lesson in proposed
        ]
    runs_of = Counter(proposed.lesson.text.tags[0] for proposed in everything)
    distinct = Counter(rule for rule, _ in {(proposed.lesson.text.tags[0], proposed.words) for proposed in everything})
    print(f"\n{'detector':24} {'proposals':>10} {'distinct':>9}")
    for rule, count in runs_of.most_common():
        print(f"{rule:24} {count:10} {distinct[rule]:9}")
    print(f"{'all':24} {sum(runs_of.values()):10} {sum(distinct.values()):9}")
    return everything


def draw(everything: list[Found], *, count: int, seed: int) -> None:
    first: dict[tuple[str, str, str], Found] = {}
    for proposal in everything:
        first.setdefault(proposal.words, proposal)
    chosen = random.Random(seed).sample(sorted(first), min(count, len(first)))
    for words in chosen:
        proposal, runs = first[words], sum(other.words == words for other in everything)
        text = proposal.lesson.text
        print(f"\n── {proposal.run} ({proposal.outcome}; {runs} run{'' if runs == 1 else 's'}; {text.tags[0]})")
        for label, value in (("when", text.trigger.removeprefix("When ")), ("do", text.guideline)):
            print(f"   {label:8} {value}")
        if text.avoid:
            print(f"   {'avoid':8} {text.avoid}")
        print(f"   {'because':8} {text.rationale}")
        for citation in proposal.lesson.citations:
            if citation.quote:
                print(f'   {"shown":8} step {citation.first_step}: "{citation.quote}"')


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--draw", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lessons", type=int, default=1)
    options = parser.parse_args()
    draw(report(options.paths, lessons=options.lessons), count=options.draw, seed=options.seed)
