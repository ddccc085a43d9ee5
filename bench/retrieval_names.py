"""Whether a task finds the lesson that names the same tool, id or error code, however the task spells it.

    uv run python -m bench.retrieval_names DATA [--modes hybrid lexical] [--worth 0 0.3] [--json FILE]

DATA is the folder of the public sets of docs/retrieval.md. Lessons that name something: the tools of MetaTool and of
tau (airline, retail) with what is said of them there, POSIX error codes with the system's own words, and orders and
payment methods of tau retail's past tasks. Beside them stand the procedures of tau banking, which name hardly anything.
A task says that a run stopped at the name, in one of six spellings, alone or before an unrelated request of MetaTool.
nDCG@10 with the one lesson that names it as the answer, so that 1 is the first place; through `POST /api/v1/retrieve`,
with intervals by bootstrap. --worth says what names count for in a score; 0 is the search without them. The half marked
held-out was not looked at while that was chosen.
"""

import argparse
import errno
import json
import logging
import os
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice, product
from pathlib import Path
from typing import Any

from bench import retrieval_quality as quality  # makes a throw-away server, sets Django up

import numpy as np  # isort: skip
from django.db import connection
from tqdm import tqdm

from bench.api_memory import ApiMemory
from bench.retrieval_figures import get_interval
from memory.retrieval import answers, name_match, scoring
from memory.retrieval.scoring import NAMES_WEIGHT

PLAIN = ("The run stopped at {}. What is to be done?", "{} went wrong again and I do not know why.")
SEED = 11
NAMES_OF_A_KIND = 60
MOST_IDS, BACKGROUND = 200, 300


def in_tuning_half(query_id: str) -> bool:
    """Queries on which the worth of a name was chosen; the others were looked at afterwards."""
    # By a hash of the id, so that the halves stay the same when tasks are added.
    return int(sha256(f"half{query_id}".encode()).hexdigest(), 16) % 2 == 0


def split(name: str) -> list[str]:
    """Return the words of a name: `cancel_order` and `cancelOrder` are cancel and order."""
    return re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)


def swap_letter(name: str) -> str:
    """Leave out a letter in the middle."""
    letters = [position for position, sign in enumerate(name) if sign.isalpha() and position > 1]
    position = letters[len(letters) // 2]
    return name[:position] + name[position + 1 :]


def turn_letters(name: str) -> str:
    """Turn two neighbouring letters around."""
    for position in range(len(name) // 2, len(name) - 1):
        if (
            name[position].isalpha()
            and name[position + 1].isalpha()
            and name[position].lower() != name[position + 1].lower()
        ):
            return name[:position] + name[position + 1] + name[position] + name[position + 2 :]
    return swap_letter(name)


def join_camel(name: str) -> str:
    words = split(name)
    return words[0].lower() + "".join(word.capitalize() for word in words[1:])


SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda name: name,
    "other case": str.swapcase,
    "other separators": lambda name: "-".join(split(name)) if "_" not in name else name.replace("_", "-"),
    "camelCase": join_camel,
    "a letter missing": swap_letter,
    "two letters turned": turn_letters,
}


def read_named(data: Path) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and what a lesson says of it."""
    for tool in quality.read_lines(data / "metatool_retrieval" / "corpus.jsonl"):
        yield "tool", tool["_id"], tool["text"]
    actions: dict[str, list[str]] = {}
    for task in quality.read_lines(data / "tau_airline_trajectories" / "expected_actions.jsonl"):
        for action in task["expected_actions"]:
            actions.setdefault(action["name"], []).extend(action["kwargs"])
    for name, arguments in sorted(actions.items()):
        yield "tool", name, f"Ask for {', '.join(sorted(set(arguments))).replace('_', ' ')} before it is called."
    past = quality.read_lines(data / "tau_retail_intents" / "corpus.jsonl")
    for name in sorted({word for task in past for word in task["writes"].split(",") if word}):
        yield "tool", name.strip(), "Read the order first and ask the customer to confirm; it cannot be undone."
    for number, name in sorted(errno.errorcode.items()):
        yield "code", name, f"The system says: {os.strerror(number)}. Look there before trying again."
    seen: set[str] = set()
    for task in past:
        for match in re.findall(r"#(W\d{6,})|\b((?:credit_card|paypal|gift_card)_\d+)", task["text"])[:1]:
            name = match[0] or match[1]
            if name not in seen and len(seen) < MOST_IDS:
                seen.add(name)
                # Ids are taken out of the text, so that the lesson names just the one in its title.
                yield "id", name, re.sub(r"#W\d+|\b\w+_\d+", "it", task["text"])[:300]


def make_lessons(data: Path, *, most: int | None = None) -> list[dict[str, str]]:
    """Return the lessons, each with the one name it is about, and the background that names nothing.

    Args:
        most: lessons with a name.
    """
    by_name = {name: (kind, text) for kind, name, text in islice(read_named(data), most)}
    lessons = [
        {"_id": f"{kind}:{name}", "title": f"{name} is used or fails", "text": text, "kind": kind, "name": name}
        for name, (kind, text) in by_name.items()
    ]
    background = quality.read_lines(data / "tau_banking_retrieval" / "corpus.jsonl")[:BACKGROUND]
    return lessons + [
        {"_id": lesson["_id"], "title": lesson.get("title", ""), "text": lesson["text"]} for lesson in background
    ]


def make_tasks(lessons: list[dict[str, str]], data: Path) -> Iterator[dict[str, str]]:
    """Yield a task for each name and spelling that differs from the name."""
    chance = random.Random(SEED)
    requests = [line["text"] for line in quality.read_lines(data / "metatool_retrieval" / "queries.jsonl")]
    asked: dict[str, int] = {}
    for lesson in lessons:
        name = lesson.get("name", "")
        if not (set(name) & set("_0123456789") or re.search("[a-z][A-Z]", name) or name.isupper()):
            continue
        asked[lesson["kind"]] = asked.get(lesson["kind"], 0) + 1
        if asked[lesson["kind"]] > NAMES_OF_A_KIND:
            continue
        for spelling, spell in SPELLINGS.items():
            if lesson["kind"] == "id" and spelling in ("a letter missing", "two letters turned"):
                # With a letter wrong, an id may be that of something else.
                continue
            spelled = spell(name)
            # A spelling that changes nothing would count the same task twice.
            if spelled == name and spelling != "as it is":
                continue
            around = chance.choice((*PLAIN, f"{{}} stopped the last run. Now: {chance.choice(requests)}"))
            yield {
                "_id": f"{lesson['_id']}:{spelling}",
                "text": around.format(spelled),
                "kind": lesson["kind"],
                "spelling": spelling,
                "answer": lesson["_id"],
            }


def measure(memory: ApiMemory, ids: dict[str, str], tasks: list[dict[str, str]], mode: str) -> Iterator[dict[str, Any]]:
    """Ask every task and yield nDCG@10 by kind, by spelling and in all."""
    values = []
    for task in tqdm(tasks, desc=mode, leave=False):
        answer = memory.ask(task["text"], mode=mode, top_k=quality.CUTOFF)
        values.append(quality.get_ndcg([ids[id] for id in memory.rank(answer)], {task["answer"]}))
    scores = np.array(values)
    groups: dict[str, list[int]] = {}
    for index, task in enumerate(tasks):
        half = "tuning" if in_tuning_half(task["answer"]) else "held-out"
        for group in ("all", f"all, {half} half", f"{task['kind']}, {half}", f"{task['spelling']}, {half}"):
            groups.setdefault(group, []).append(index)
    for group, places in sorted(groups.items()):
        low, high = get_interval(scores[places])
        mean, first = float(scores[places].mean()), float((scores[places] == 1).mean())
        yield {
            "mode": mode,
            "tasks": group,
            "n": len(places),
            "ndcg_at_10": mean,
            "low": low,
            "high": high,
            "first": first,
        }


@contextmanager
def names_worth(worth: float) -> Iterator[None]:
    """Let names count for so much in scores, or not be looked for at all."""
    most = name_match.MAX_NAMES
    # Answers that are kept would come from the setting before.
    answers.finished_answers = answers.FinishedAnswers()
    scoring.NAMES_WEIGHT, name_match.MAX_NAMES = worth, most if worth else 0
    try:
        yield
    finally:
        scoring.NAMES_WEIGHT, name_match.MAX_NAMES = NAMES_WEIGHT, most
        answers.finished_answers = answers.FinishedAnswers()


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--modes", nargs="+", default=["hybrid"])
    parser.add_argument("--worth", nargs="+", type=float, default=[0.0, NAMES_WEIGHT])
    parser.add_argument("--limit", type=int, help="Only the first lessons with a name.")
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


def measure_all(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Ask all tasks in every mode and with every worth; print the figures and return them."""
    memory = ApiMemory("Names")
    lessons = make_lessons(options.data, most=options.limit)
    ids = memory.load(quality.make_lesson(document) for document in lessons)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    tasks = list(make_tasks(lessons, options.data))
    print(f"{len(lessons)} lessons, {len(tasks)} tasks")
    rows = []
    for mode, worth in product(options.modes, options.worth):
        with names_worth(worth):
            for row in measure(memory, ids, tasks, mode):
                rows.append(row | {"worth": worth})
                print(
                    f"{mode:8} {worth:4} {row['tasks']:32} n={row['n']:<5} nDCG@10 {row['ndcg_at_10']:.3f} "
                    f"({row['low']:.3f}–{row['high']:.3f})  first {row['first']:.3f}",
                    flush=True,
                )
    return rows


def main() -> None:
    # Otherwise there is a line for every request.
    logging.disable(logging.INFO)
    options = read_options()
    with quality.scratch_database():
        rows = measure_all(options)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
