"""How well similarity alone, and the product, tell the same mistake from another, on labelled pairs.

    uv run python -m bench.mistake_merging [--svg docs/images/mistake-merging.svg]

The pairs are those of tests/data/reflexion_mistakes. Each text is made a card as an agent would send it: what was wrong
up to the first "instead of", "should", "expected" … as the bad decision, the rest as the correct one. The vectors are
the product's own (embed_composites, as memory.mistakes.similarity calls it).
"""

import argparse
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import django

DATA = Path(__file__).parents[1] / "tests" / "data" / "reflexion_mistakes"
_CUE = re.compile(
    r"\b(instead of|rather than|should|expects?|expected|needs? to be|the correct|I will)\b", re.IGNORECASE
)
_BOILERPLATE = re.compile(
    r"It did not help to execute two identical actions in a row\..*|If I am stuck in a loop again.*", re.IGNORECASE
)
_MIN_HEAD = 20
WIDTH, HEIGHT, MARGIN = 520, 300, 40


class Pair(NamedTuple):
    suite: str
    similarity: float
    same: bool
    merged: bool = False


class Rate(NamedTuple):
    threshold: float
    precision: float
    recall: float
    merged: int


def read_pairs() -> tuple[dict[int, dict[str, str]], list[tuple[int, int, bool]]]:
    """Return the texts by id, and the labelled pairs of ids."""
    lines = (DATA / "texts.jsonl").read_text(encoding="utf-8").splitlines()
    texts = {row["id"]: row for row in map(json.loads, lines)}
    rows = [line.split("\t") for line in (DATA / "pairs.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    return texts, [(int(first), int(second), same == "1") for first, second, same in rows]


def split_mistake(text: str) -> tuple[str, ...]:
    """Cut a free text into what was wrong and what would have been right."""
    text = _BOILERPLATE.sub("", text).strip()
    cue = _CUE.search(text)
    # A cue at the very beginning leaves nothing that was wrong.
    if cue is None or cue.start() < _MIN_HEAD:
        return (text,)
    return (text[: cue.start()].strip(), text[cue.start() :].strip())


def compare() -> list[Pair]:
    """Return the similarity of every labelled pair."""
    from memory.embeddings.base import embed_composites
    from memory.embeddings.registry import get_embedder
    from memory.meaning.comparison import MeaningVerdict
    from memory.mistakes.reports import compare_mistakes
    from memory.mistakes.similarity import MERGE_SIMILARITY

    texts, pairs = read_pairs()
    ids = sorted(texts)
    embedder = get_embedder()
    assert embedder is not None
    made = embed_composites(embedder, [split_mistake(texts[mistake_id]["text"]) for mistake_id in ids])
    vectors = dict(zip(ids, made, strict=True))
    read = {mistake_id: _as_report(split_mistake(texts[mistake_id]["text"])) for mistake_id in ids}
    compared = []
    for first, second, same in pairs:
        similarity = float(vectors[first] @ vectors[second])
        verdict = compare_mistakes(read[first], read[second], similarity=similarity)
        merged = similarity >= MERGE_SIMILARITY and verdict.verdict is MeaningVerdict.SAME
        compared.append(Pair(suite=texts[first]["suite"], similarity=similarity, same=same, merged=merged))
    return compared


def _as_report(parts: tuple[str, ...]) -> Any:
    from memory.mistakes.reports import MistakeText

    return MistakeText(mistake_type="mistake", bad_decision=parts[0], correct_decision="".join(parts[1:]))


def count_merged(pairs: Sequence[Pair]) -> tuple[int, int]:
    """Return how many pairs the product merges, whose words decide, and how many of those are the same mistake."""
    merged = [pair.same for pair in pairs if pair.merged]
    return len(merged), sum(merged)


def rate(pairs: Sequence[Pair], threshold: float) -> Rate:
    """Return precision and recall of merging from a threshold on; precision is 1 where nothing is merged."""
    merged = [pair.same for pair in pairs if pair.similarity >= threshold]
    same = sum(pair.same for pair in pairs)
    return Rate(threshold, sum(merged) / len(merged) if merged else 1.0, sum(merged) / same, len(merged))


def draw(curves: dict[str, list[Rate]], chosen: float) -> str:
    """Draw precision and recall over the threshold, a pair of lines for each set."""
    colours = {"precision": "#1a6b35", "recall": "#a3211b"}
    left, right = curves["all"][0].threshold, curves["all"][-1].threshold

    def x(threshold: float) -> float:
        return MARGIN + (threshold - left) / (right - left) * (WIDTH - 2 * MARGIN)

    def y(value: float) -> float:
        return HEIGHT - MARGIN - value * (HEIGHT - 2 * MARGIN)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-size="11">',
        "<title>Precision and recall of merging mistakes by threshold</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    parts += [
        f'<path d="M{MARGIN} {y(tick):.1f}H{WIDTH - MARGIN}" stroke="#ddd"/>'
        f'<text x="{MARGIN - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    for step in range(6):
        at = left + step * (right - left) / 5
        parts.append(f'<text x="{x(at):.1f}" y="{HEIGHT - MARGIN + 16}" text-anchor="middle">{at:.2f}</text>')
    parts.append(f'<path d="M{x(chosen):.1f} {y(0):.1f}V{y(1):.1f}" stroke="#555" stroke-dasharray="3 3"/>')
    for (suite, rates), dashes in zip(curves.items(), ("none", "6 3", "1 3"), strict=True):
        for measure, colour in colours.items():
            line = " ".join(f"{x(r.threshold):.1f},{y(getattr(r, measure)):.1f}" for r in rates)
            parts.append(
                f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6" '
                f'stroke-dasharray="{dashes}"><title>{measure}, {suite}</title></polyline>'
            )
    legend = "green precision, red recall; solid all, dashed ALFWorld, dotted programming; line: the setting"
    parts.append(f'<text x="{MARGIN}" y="18" font-size="9" font-family="sans-serif">{legend}</text></svg>')
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--svg", type=Path, help="where to draw the curve")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "erl_site.settings")
    django.setup()
    from memory.mistakes.similarity import MERGE_SIMILARITY

    chosen = MERGE_SIMILARITY
    pairs = compare()
    sets = {
        "all": pairs,
        "alfworld": [pair for pair in pairs if pair.suite == "alfworld"],
        "mbpp-py": [pair for pair in pairs if pair.suite == "mbpp-py"],
    }
    thresholds = [0.5 + step / 100 for step in range(50)]
    print(f"{'set':<10} {'pairs':>5} {'same':>5}   threshold  precision  recall  merged")
    for name, chosen_pairs in sets.items():
        for threshold in (0.80, 0.85, 0.90, chosen, 0.95):
            at = rate(chosen_pairs, threshold)
            mark = "  <- the setting" if threshold == chosen else ""
            print(
                f"{name:<10} {len(chosen_pairs):>5} {sum(p.same for p in chosen_pairs):>5}   {at.threshold:>9.2f}  "
                f"{at.precision:>9.2f}  {at.recall:>6.2f}  {at.merged:>6}{mark}"
            )
        merged, right = count_merged(chosen_pairs)
        print(f"{name:<10} merged by the product, whose words decide: {merged}, of which {right} are the same mistake")
    if options.svg:
        curves = {name: [rate(chosen_pairs, level) for level in thresholds] for name, chosen_pairs in sets.items()}
        options.svg.write_text(draw(curves, chosen), encoding="utf-8")
        print(f"The curve is in {options.svg}.")


if __name__ == "__main__":
    main()
