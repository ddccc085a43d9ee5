"""Command lines: what one of a command's subcommands or options does, and the command with the others."""

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.domains.pairs import Page, Pairs, Question, join_lines, order_by_hash

# The package holds one module of plain data for each command.
_DUMP = """
const {readdirSync} = require("fs"), {pathToFileURL} = require("url");
(async () => {
  const specs = [];
  for (const name of readdirSync(process.argv[1]).filter(name => name.endsWith(".js")).sort())
    specs.push((await import(pathToFileURL(process.argv[1] + "/" + name))).default);
  process.stdout.write(JSON.stringify(specs));
})();
"""
_GENERAL = re.compile(r"\b(help|version|verbose|autocompletion|completion|quiet|debug|log)\b", re.IGNORECASE)
MIN_CHARACTERS, MAX_CHARACTERS, MIN_WORDS = 30, 300, 5
MAX_PARTS = 12  # of a command with hundreds of subcommands


def read_pairs(package: Path) -> Pairs:
    """The package @withfig/autocomplete: one description of each command becomes a question and leaves its page."""
    folder = (package / "build").resolve()
    output = subprocess.run(["node", "-e", _DUMP, folder], check=True, capture_output=True)  # noqa: S607
    specs = [spec for spec in json.loads(output.stdout) if isinstance(spec, dict) and spec.get("description")]
    commands = {get_name(spec): spec for spec in specs}
    parts = {name: list(get_parts(spec)) for name, spec in commands.items()}
    times = Counter(text for of_command in parts.values() for _, text in of_command)
    pages, questions = [], []
    for name, spec in commands.items():
        # A description that several commands share would have several right answers.
        telling = [text for _, text in parts[name] if times[text] == 1 and is_telling(text, name)]
        # The longest description is the least general one.
        question = max(telling, key=lambda text: (len(text), text), default="")
        others = [(part, text) for part, text in parts[name] if text != question]
        others = sorted(others, key=lambda other: order_by_hash(f"{name} {other[0]}"))[:MAX_PARTS]
        described = " ".join(f"{part}: {text}." for part, text in others)
        pages.append(Page(key=name, title=name, text=join_lines(f"{spec['description']}. {described}")))
        if question:
            questions.append(Question(key=f"part-{name}", text=question, answers=[name]))
    return Pairs(pages=pages, questions=questions)


def get_parts(spec: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and description of the subcommands, or of the options where there are none."""
    for part in spec.get("subcommands") or spec.get("options") or []:
        if part.get("description"):
            yield get_name(part), join_lines(part["description"]).rstrip(".")


def get_name(spec: dict[str, Any]) -> str:
    name = spec["name"]
    return str(name[-1] if isinstance(name, list) else name)


def is_telling(text: str, command: str) -> bool:
    """Whether the text says what somebody wants, without naming the command."""
    telling = MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS and len(text.split()) >= MIN_WORDS
    return telling and not _GENERAL.search(text) and command.lower() not in text.lower()
