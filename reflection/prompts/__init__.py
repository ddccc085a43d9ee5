"""The prompt files: their text, and a version that changes with every word."""

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

FOLDER = Path(__file__).parent
_HEADER = re.compile(r"---\nname: (?P<name>[a-z-]+)\nversion: (?P<version>\d+)\n---\n", re.ASCII)
_PLACE = re.compile(r"\{\{([a-z_]+)\}\}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptFile:
    """One prompt: its name and version from the header, and its text with {{places}} to fill."""

    name: str
    version: int
    text: str

    def fill(self, **values: str) -> str:
        """Put values into the places, in one pass: what a value contains is never taken for a place."""
        return _PLACE.sub(lambda match: values[match[1]], self.text).strip()


@cache
def read_prompt(name: str) -> PromptFile:
    """Return a prompt file by its name; raise ValueError when its header does not fit."""
    raw = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    header = _HEADER.match(raw)
    if header is None or header["name"] != name:
        raise ValueError(f"The prompt file {name}.md must start with a header that gives its name and version.")
    return PromptFile(name=name, version=int(header["version"]), text=raw[header.end() :])


@cache
def prompt_version(name: str, *parts: str) -> str:
    """Return for example "reflect-failure/1@1f3a9c02": the hash covers the file and the parts it is sent with."""
    prompt = read_prompt(name)
    texts = [read_prompt(each).text for each in (name, *parts)]
    return f"{name}/{prompt.version}@{sha256(chr(0).join(texts).encode()).hexdigest()[:8]}"
