"""Build one of the retrieval sets of this folder from the package that holds its texts.

    uv run python -m tests.bench.domains.build SET PACKAGE_FOLDER

SET is the name of a folder here; its SOURCE.md names the package. PACKAGE_FOLDER is that package, unpacked. Which
questions and pages are taken is drawn by a hash with seed 0, so the same package gives the same files.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.bench.domains import bfcl, ruff, rustc
from tests.bench.domains.pairs import Page, Pairs, cut, order_by_hash

READERS: dict[str, Callable[[Path], Pairs]] = {
    "code_review": ruff.read_pairs,
    "compiler_errors": rustc.read_pairs,
    "tool_calls": bfcl.read_pairs,
}
MAX_QUESTIONS = 500
MAX_PAGES = 1000
MAX_CHARACTERS = 1500  # of a page or a question
MAX_BYTES = 270_000  # of all pages


def draw(pairs: Pairs) -> Pairs:
    """Take some questions, the pages that answer them, and other pages while there is room."""
    questions = sorted(pairs.questions, key=lambda question: order_by_hash(question.key))[:MAX_QUESTIONS]
    wanted = {key for question in questions for key in question.answers}
    pages = sorted(pairs.pages, key=lambda page: (page.key not in wanted, order_by_hash(page.key)))
    taken: list[Page] = []
    size = 0
    for page in pages[:MAX_PAGES]:
        size += len(make_line(page).encode())
        if size > MAX_BYTES and page.key not in wanted:
            break
        taken.append(page)
    return Pairs(
        pages=sorted(taken, key=lambda page: page.key), questions=sorted(questions, key=lambda question: question.key)
    )


def make_line(page: Page) -> str:
    return to_json({"_id": page.key, "title": page.title, "text": cut(page.text, MAX_CHARACTERS)})


def to_json(value: dict[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False)


def write(folder: Path, pairs: Pairs) -> None:
    """Write a set in BEIR layout."""
    folder.mkdir(exist_ok=True)
    questions = [
        to_json({"_id": question.key, "text": cut(question.text, MAX_CHARACTERS)}) for question in pairs.questions
    ]
    relevant = [f"{question.key}\t{answer}\t1" for question in pairs.questions for answer in question.answers]
    write_lines(folder / "corpus.jsonl", map(make_line, pairs.pages))
    write_lines(folder / "queries.jsonl", questions)
    write_lines(folder / "qrels.tsv", ["query-id\tcorpus-id\tscore", *relevant])


def write_lines(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("set", choices=sorted(READERS), metavar="SET", help=f"one of {', '.join(sorted(READERS))}")
    parser.add_argument("package", type=Path, metavar="PACKAGE_FOLDER")
    options = parser.parse_args()
    pairs = draw(READERS[options.set](options.package))
    write(Path(__file__).parent / options.set, pairs)
    print(f"{options.set}: {len(pairs.pages)} pages, {len(pairs.questions)} questions")


if __name__ == "__main__":
    main()
