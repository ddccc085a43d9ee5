"""Print what two judges thought of the offline reflector's proposals.

`python -m bench.proposal_verdicts [FOLDER] [--sample 20]` reads, from `bench/verdicts` by default:

- `proposals.jsonl`: the proposals that were judged, with the runs they cite
- `verdicts-a.jsonl`, `verdicts-b.jsonl`: one verdict for each proposal: approve, edit, wrong or noise
- `proposals-7.jsonl`: what version 7 proposes from the same runs; those whose other words were judged have an id
- `verdicts-7-a.jsonl`, `verdicts-7-b.jsonl`: one verdict for each of these; empty while a judge has not read them
- `failures.jsonl`: failed runs; `failures-a.jsonl`, `failures-b.jsonl`: whether the run shows why it failed, and which
  proposals would have helped
- `held-out.jsonl`: failed runs of kinds of agents that had no part in the design of version 10, and two verdicts
  on what it proposed for each, if anything; `held_out/` has the runs
- `held-out-12.jsonl`: the same of three other kinds, with one verdict on what version 11 proposed; `held_out_2/` has
  the runs
- `held-out-13.jsonl`, `held-out-14.jsonl`, `held-out-15.jsonl`: the same of ten more kinds, and what versions 13, 14
  and 15 proposed; `held_out_3/` to `held_out_5/` have the runs

A proposal counts as approved if both judges would approve it unedited, and as wrong if either says so. With `--sample`
it prints that many proposals of version 7 instead, drawn by seed, in Markdown.
"""

import json
import random
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

VERDICTS = ("approve", "edit", "wrong", "noise")
SEED = 18
FOLDER = Path(__file__).parent / "verdicts"


def kappa(one: Sequence[str], other: Sequence[str]) -> float:
    """Return Cohen's kappa (Cohen 1960): agreement beyond chance, from what each judge says how often."""
    if not one or len(one) != len(other):
        raise ValueError("Both judges must have judged the same things, and at least one.")
    count = len(one)
    observed = sum(a == b for a, b in zip(one, other, strict=True)) / count
    counts, other_counts = Counter(one), Counter(other)
    # Agreement by chance: both draw their verdicts as often as they do, but independently.
    chance = sum(counts[verdict] * other_counts[verdict] for verdict in counts) / count**2
    # Two judges who only ever say one thing agree by definition, and 0/0 is undefined.
    return 1.0 if chance == 1 else (observed - chance) / (1 - chance)


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def read_verdicts(path: Path, ids: Sequence[str]) -> list[str]:
    """Return one judge's verdicts in the order of the proposals.

    Raises:
        ValueError: one is missing or is not a verdict.
    """
    verdicts = {row["id"]: row["verdict"] for row in read_rows(path)}
    bad = [row_id for row_id in ids if verdicts.get(row_id) not in VERDICTS]
    if bad:
        raise ValueError(f"{path.name} has no verdict for {', '.join(bad)}.")
    return [verdicts[row_id] for row_id in ids]


def judged_table(proposals: Sequence[Mapping[str, Any]], one: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the lines of a Markdown table: verdicts of each judge, of both, by kind of agent."""
    pairs = list(zip(proposals, one, other, strict=True))
    rows = [("all", pairs)]
    rows += [
        (kind, [pair for pair in pairs if pair[0]["kind"] == kind]) for kind in sorted({p["kind"] for p in proposals})
    ]
    lines = [
        "| runs of | proposals | approved by A | by B | by both | wrong for either | noise for both |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, chosen in rows:
        cells = (
            len(chosen),
            sum(a == "approve" for _, a, _ in chosen),
            sum(b == "approve" for _, _, b in chosen),
            sum(a == b == "approve" for _, a, b in chosen),
            sum("wrong" in (a, b) for _, a, b in chosen),
            sum(a == b == "noise" for _, a, b in chosen),
        )
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    return lines


def failures_line(failures: Sequence[Mapping[str, Any]], *judged: Mapping[str, Mapping[str, Any]]) -> str:
    """Say for how many of the failed runs whose cause all judges see all of them name a useful proposal."""
    visible = [run["id"] for run in failures if all(judge[run["id"]]["visible_cause"] for judge in judged)]
    helped = [number for number in visible if all(judge[number]["useful"] for judge in judged)]
    share = f" ({len(helped) / len(visible):.0%})" if visible else ""
    return (
        f"Of {len(failures)} failed runs, {len(visible)} show both judges why they failed; for {len(helped)} of "
        f"these{share} both name at least one useful proposal."
    )


def changes_line(
    proposals: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], *judged: Sequence[str]
) -> str:
    """Say which of the proposals that were judged a later version makes in the same words, and the verdicts on them."""
    texts = {_text_of(proposal) for proposal in now}
    kept = [number for number, proposal in enumerate(proposals) if _text_of(proposal) in texts]
    unread = len(now) - len(kept) - sum("id" in proposal for proposal in now)
    approved = " and ".join(str(sum(judge[number] == "approve" for number in kept)) for judge in judged)
    wrong = sum("wrong" in (judge[number] for judge in judged) for number in kept)
    return (
        f"Version 7 makes {len(now)} proposals from the same runs. {len(kept)} of them have the words that were "
        f"judged: the judges approve {approved} of these and call {wrong} wrong. {unread} of them no judge has read."
    )


def held_out_table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table: failed runs that show why they failed, and those with an approved proposal.

    The last column counts different wordings, approved ones first.
    """
    lines = [
        "| runs of | failed | cause visible | with a proposal | approved | wordings approved |",
        "|---|---|---|---|---|---|",
    ]
    for kind in [*sorted({run["kind"] for run in runs}), "all"]:
        chosen = [run for run in runs if kind in (run["kind"], "all")]
        proposed = [run for run in chosen if "do" in run]
        approved = [run for run in proposed if run["verdict_a"] == run["verdict_b"] == "approve"]
        visible = sum(run["visible_cause"] for run in chosen)
        words = f"{len({run['do'] for run in approved})} of {len({run['do'] for run in proposed})}"
        share = f" ({len(approved) / visible:.0%})" if visible else ""
        lines.append(f"| {kind} | {len(chosen)} | {visible} | {len(proposed)} | {len(approved)}{share} | {words} |")
    return lines


def once_judged_table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a Markdown table of failed runs whose proposals one reader judged, and of its precision.

    The share of approved ones is of the runs that show why they failed.
    """
    lines = [
        "| runs of | failed | cause visible | with a proposal | approved | to be edited | wrong or noise |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in [*sorted({run["kind"] for run in runs}), "all"]:
        chosen = [run for run in runs if kind in (run["kind"], "all")]
        said = Counter(run["verdict"] for run in chosen if "do" in run)
        visible = sum(run["visible_cause"] for run in chosen)
        helped = sum(run["visible_cause"] and run.get("verdict") == "approve" for run in chosen)
        share = f" ({helped / visible:.0%})" if visible else ""
        cells = (len(chosen), visible, said.total(), f"{helped}{share}", said["edit"], said["wrong"] + said["noise"])
        lines.append(f"| {kind} | " + " | ".join(map(str, cells)) + " |")
    verdicts = [run["verdict"] for run in runs if "do" in run]
    precision = f" ({verdicts.count('approve') / len(verdicts):.0%})" if verdicts else ""
    return [*lines, "", f"Of {len(verdicts)} proposals, {verdicts.count('approve')}{precision} are approved."]


def describe_other_words(judge: str, said: Sequence[str]) -> str:
    """Say what a judge thinks of the proposals with other words."""
    if not said:
        return f"Judge {judge.upper()} has not judged those with other words."
    counts = ", ".join(f"{said.count(verdict)} {verdict}" for verdict in VERDICTS)
    return f"Of {len(said)} with other words, judge {judge.upper()} says: {counts}."


def _text_of(proposal: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(proposal[name] for name in ("kind", "when", "do", "avoid", "not_when"))


def write_proposal(proposal: Mapping[str, Any]) -> str:
    """Write a proposal as a Markdown item."""
    parts = [f"**{proposal['when']}** {proposal['do']}"]
    names = {"avoid": "Avoid", "not_when": "Not when", "because": "Because"}
    parts += [f"*{word}:* {proposal[name]}" for name, word in names.items() if proposal[name]]
    return f"- ({proposal['kind']}, support {proposal['support']}) " + " ".join(parts)


def report(folder: Path) -> str:
    proposals, failures = read_rows(folder / "proposals.jsonl"), read_rows(folder / "failures.jsonl")
    ids = [proposal["id"] for proposal in proposals]
    first, other = (read_verdicts(folder / f"verdicts-{judge}.jsonl", ids) for judge in "ab")
    seen = [{row["id"]: row for row in read_rows(folder / f"failures-{judge}.jsonl")} for judge in "ab"]
    same = sum(a == b for a, b in zip(first, other, strict=True))
    agreement = f"The judges agree on {same} of {len(ids)} proposals; Cohen's kappa is {kappa(first, other):.2f}."
    now = read_rows(folder / "proposals-7.jsonl")
    changes = [changes_line(proposals, now, first, other)]
    new = [proposal["id"] for proposal in now if "id" in proposal]
    for judge in "ab":
        path = folder / f"verdicts-7-{judge}.jsonl"
        changes.append(describe_other_words(judge, read_verdicts(path, new) if path.stat().st_size else ()))
    lines = [*judged_table(proposals, first, other), "", agreement, failures_line(failures, *seen), *changes]
    lines += ["", *held_out_table(read_rows(folder / "held-out.jsonl"))]
    for name in ("held-out-12.jsonl", "held-out-13.jsonl", "held-out-14.jsonl", "held-out-15.jsonl"):
        lines += ["", *once_judged_table(read_rows(folder / name))]
    return "\n".join(lines)


def sample(folder: Path, count: int) -> str:
    proposals = read_rows(folder / "proposals-7.jsonl")
    drawn = random.Random(SEED).sample(proposals, min(count, len(proposals)))
    return "\n".join(map(write_proposal, drawn))


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--sample", type=int, metavar="N", help="print N proposals drawn by seed instead")
    options = parser.parse_args()
    print(sample(options.folder, options.sample) if options.sample else report(options.folder))
