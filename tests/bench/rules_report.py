"""Measure whether the patterns of the rules reflector go with how runs end.

`python -m tests.bench.rules_report FILE.jsonl …` reads each run twice, once as if it had failed and once as if it had
succeeded, so that a detector shows its pattern whatever the true outcome is. Then it counts how the runs with the
pattern truly ended, beside all runs of the file. A pattern of failure that is as frequent in successes explains
nothing.
"""

import os
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from time import perf_counter

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
os.environ.setdefault("ERL_ENV_FILE", os.devnull)

import django

django.setup()

from memory.intake.files import as_episode, read_entries  # noqa: E402
from memory.runs.episode import Episode  # noqa: E402
from reflection.reflectors.base import ProposedLesson  # noqa: E402
from reflection.reflectors.rules import RulesReflector  # noqa: E402

WORD = {"failure": "avoid", "success": "works"}


def find_patterns(episode: Episode, *, outcome: str) -> list[ProposedLesson]:
    """Return the lessons the run would give if it had ended so, of the kind that explains such an end."""
    forced = replace(episode, outcome=outcome, score=None)
    lessons = RulesReflector(max_lessons=20).reflect(forced, near=()).lessons
    return [lesson for lesson in lessons if lesson.text.polarity == WORD[outcome]]


def report(path: Path) -> None:
    episodes = [as_episode(entry.data) for entry in read_entries(path) if entry.data is not None]
    start = perf_counter()
    _ = [RulesReflector().reflect(episode, near=()) for episode in episodes]
    print(f"\n{path.parent.name}: {(perf_counter() - start) * 1000 / len(episodes):.1f} ms a run")
    for outcome, word in WORD.items():
        base = sum(episode.outcome == outcome for episode in episodes)
        print(f"\n{path.parent.name}: {base} of {len(episodes)} runs ended in {outcome} ({base / len(episodes):.0%})")
        ends: dict[tuple[str, str], list[bool]] = defaultdict(list)
        for episode in episodes:
            for lesson in find_patterns(episode, outcome=outcome):
                ends[lesson.text.tags[0], lesson.text.trigger].append(episode.outcome == outcome)
        for (rule, trigger), found in sorted(ends.items(), key=lambda pair: -len(pair[1])):
            share = f"{sum(found)} of {len(found)} ({sum(found) / len(found):.0%})"
            print(f"  {word:5} {share:16} {rule}: {trigger[:110]}")


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        report(Path(argument))
