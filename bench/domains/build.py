"""Build one of the retrieval sets of this folder from the package that holds its texts.

    uv run python -m bench.domains.build SET PACKAGE_FOLDER

SET is the name of a folder here; its SOURCE.md names the package. PACKAGE_FOLDER is that package, unpacked. Which
questions and pages are taken is drawn by a hash with seed 0, so the same package gives the same files.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.domains import bfcl, django_source, fig, libreoffice, ruff, rustc
from bench.domains.pairs import Page, Pairs, Question, cut, order_by_hash

READERS: dict[str, Callable[[Path], Pairs]] = {
    "code_review": ruff.read_pairs,
    "code_search": django_source.read_pairs,
    "command_lines": fig.read_pairs,
    "compiler_errors": rustc.read_pairs,
    "office_help_german": libreoffice.read_pairs,
    "tool_calls": bfcl.read_pairs,
}
MAX_QUESTIONS = 500
MAX_PAGES = 1000
PAGE_CHARACTERS = 600  # about as long as a lesson
QUESTION_CHARACTERS = 1500
MAX_BYTES = 260_000  # of all pages
ANSWER_BYTES = 220_000  # of those that answer a question; the others are there to be confused with them


def draw(pairs: Pairs) -> Pairs:
    """Take some questions, the pages that answer them, and other pages while there is room."""
    sizes = {page.key: len(make_line(page).encode()) for page in pairs.pages}
    questions: list[Question] = []
    wanted: set[str] = set()
    for question in sorted(pairs.questions, key=lambda question: order_by_hash(question.key))[:MAX_QUESTIONS]:
        # A question without its page would have no right answer.
        if sum(sizes[key] for key in wanted.union(question.answers)) > ANSWER_BYTES:
            break
        questions.append(question)
        wanted.update(question.answers)
    pages: list[Page] = []
    size = 0
    # The pages with answers first, then others to be confused with them.
    for page in sorted(pairs.pages, key=lambda page: (page.key not in wanted, order_by_hash(page.key)))[:MAX_PAGES]:
        size += sizes[page.key]
        if size > MAX_BYTES:
            break
        pages.append(page)
    return Pairs(
        # In the order of their keys, so that the files differ little when the package does.
        pages=sorted(pages, key=lambda page: page.key),
        questions=sorted(questions, key=lambda question: question.key),
    )


def make_line(page: Page) -> str:
    return to_json({"_id": page.key, "title": page.title, "text": cut(page.text, PAGE_CHARACTERS)})


def to_json(value: dict[str, str]) -> str:
    return json.dumps(value, ensure_ascii=False)


def write(folder: Path, pairs: Pairs) -> None:
    """Write a set in BEIR layout."""
    folder.mkdir(exist_ok=True)
    questions = [
        to_json({"_id": question.key, "text": cut(question.text, QUESTION_CHARACTERS)}) for question in pairs.questions
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
