"""Code review: a snippet of Python that breaks a rule of Ruff, and what the rule says."""

import json
import re
import subprocess
from pathlib import Path

from bench.domains.pairs import Page, Pairs, Question, join_lines

_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_CODE = re.compile(r"```(?:python|pyi?)\n(.*?)```", re.DOTALL)
_COMMENT = re.compile(r"\s*#(?!!| ?(?:noqa|type:|ruff:)).*")  # comments of a program's own kind are the mistake itself
_PLACE = re.compile(r"(?:`?\{[^}]*\}`?)+")
MIN_CHARACTERS = 25


def read_pairs(package: Path) -> Pairs:
    """The wheel of Ruff: every rule that is still there becomes a page, its first bad example a question."""
    binary = next(path for path in sorted(package.rglob("ruff")) if path.is_file())
    output = subprocess.run([binary, "rule", "--all", "--output-format", "json"], check=True, capture_output=True)
    pages, questions = [], []
    for rule in json.loads(output.stdout):
        if "Removed" in rule["status"]:
            continue
        sections = split_sections(rule["explanation"])
        text = f"{sections.get('What it does', '')} {sections.get('Why is this bad?', '')}"
        pages.append(
            Page(
                key=rule["name"],
                title=join_lines(_PLACE.sub("…", rule["summary"])),
                text=join_lines(_CODE.sub(" ", text)),
            )
        )
        if example := _CODE.search(sections.get("Example", "")):
            code = _COMMENT.sub("", example[1]).strip()
            if len(code) >= MIN_CHARACTERS:
                questions.append(Question(key=f"code-{rule['name']}", text=code, answers=[rule["name"]]))
    return Pairs(pages=pages, questions=questions)


def split_sections(explanation: str) -> dict[str, str]:
    _, *rest = _SECTION.split(explanation)
    return dict(zip(rest[::2], rest[1::2], strict=True))
