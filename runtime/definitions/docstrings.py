"""What the docstring of a tool says: about the tool, and about each parameter."""

import inspect
import re

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
# `name: words`, or `name (type): words` as in Google's style.
_ENTRY = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return the description, and the words about each parameter from the section `Args:`."""
    description: list[str] = []
    words: dict[str, str] = {}
    section = name = ""
    for line in inspect.cleandoc(text).splitlines():
        if match := _SECTION.match(line):
            section, name = match[1], ""
        elif not section:
            description.append(line)
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            entry = _ENTRY.match(line.strip())
            if entry and _indent(line) <= 4:
                name = entry[1]
                words[name] = entry[2]
            elif name:
                words[name] = f"{words[name]} {line.strip()}".strip()
        elif line and not line.startswith(" "):
            section = ""
            description.append(line)
    return "\n".join(description).strip(), words


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
