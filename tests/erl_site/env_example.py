"""Read .env.example and settings.py side by side; `python -m tests.erl_site.env_example` rewrites the table in docs."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
BEGIN, END = "<!-- settings: begin -->", "<!-- settings: end -->"
_VARIABLE = re.compile(r"#([A-Z][A-Z0-9_]*)=(.*)")
_HEADING = re.compile(r"# ── (.+?) ─+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A variable as .env.example shows it."""

    name: str
    default: str
    section: str
    comment: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Read:
    """A variable as settings.py reads it; `default` is None where it is no constant."""

    name: str
    method: str
    default: Any


def examples() -> list[Example]:
    """Return the variables of .env.example, each with the comment lines directly above it."""
    found: list[Example] = []
    section, comment = "", list[str]()
    for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines():
        if heading := _HEADING.fullmatch(line):
            section, comment = heading[1], []
        elif variable := _VARIABLE.fullmatch(line):
            found.append(Example(name=variable[1], default=variable[2], section=section, comment=" ".join(comment)))
            comment = []
        elif line.startswith("# "):
            comment.append(line[2:])
        else:
            comment = []
    return found


def reads() -> list[Read]:
    """Return every `env.<method>("NAME", default)` of settings.py."""
    tree = ast.parse((ROOT / "erl_site" / "settings.py").read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "env"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            given = [*node.args[1:2], *(k.value for k in node.keywords if k.arg == "default")]
            found.append(
                Read(
                    name=str(node.args[0].value), method=node.func.attr, default=_constant(given[0]) if given else None
                )
            )
    return found


def _constant(node: ast.expr) -> Any:
    """Return the value of a constant or of a product of constants, else None."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _constant(node.left), _constant(node.right)
        return None if left is None or right is None else left * right
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def table() -> str:
    """Return the settings as Markdown, one table a section."""
    lines: list[str] = []
    section = None
    for example in examples():
        if example.section != section:
            section = example.section
            lines += ["", f"## {section}", "", "| variable | default | meaning |", "| --- | --- | --- |"]
        default = f"`{example.default}`" if example.default else "empty"
        meaning = example.comment.replace("|", "\\|")
        lines.append(f"| `{example.name}` | {default} | {meaning} |")
    return "\n".join(lines).strip()


def page_table() -> str:
    """Return the table as docs/configuration.md has it."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
