"""Tool calls: what a user asks, and the functions that an agent would have to call (Berkeley function calling)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.domains.pairs import Page, Pairs, Question, join_lines

CATEGORIES = ("simple_python", "multiple", "parallel", "parallel_multiple")


def read_pairs(package: Path) -> Pairs:
    """The wheel of bfcl-eval. Functions of one name are one page; requests for several functions have ids m-…"""
    pages: dict[str, Page] = {}
    questions = []
    for category in CATEGORIES:
        truth = {row["id"]: row["ground_truth"] for row in read_rows(package, f"possible_answer/BFCL_v4_{category}")}
        for row in read_rows(package, f"BFCL_v4_{category}"):
            for function in row["function"]:
                pages.setdefault(function["name"], make_page(function))
            names = list(dict.fromkeys(name for call in truth[row["id"]] for name in call))
            kind = "m" if len(names) > 1 else "s"
            request = " ".join(message["content"] for message in row["question"][0] if message["role"] == "user")
            questions.append(Question(key=f"{kind}-{row['id']}", text=join_lines(request), answers=names))
    answerable = [question for question in questions if all(name in pages for name in question.answers)]
    return Pairs(pages=[*pages.values()], questions=answerable)


def make_page(function: dict[str, Any]) -> Page:
    parameters = function["parameters"]["properties"]
    described = " ".join(f"{name}: {value.get('description', '')}" for name, value in parameters.items())
    return Page(
        key=function["name"],
        title=function["name"].replace(".", " ").replace("_", " "),
        text=join_lines(f"{function['description']} {described}"),
    )


def read_rows(package: Path, name: str) -> Iterator[dict[str, Any]]:
    for line in (package / "bfcl_eval" / "data" / f"{name}.json").read_text().splitlines():
        yield json.loads(line)
