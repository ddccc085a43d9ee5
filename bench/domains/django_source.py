"""Code search: the first sentence of a function's docstring, and the function without it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bench.domains.pairs import Page, Pairs, Question, join_lines

_WORD = re.compile(r"[A-Za-z][a-z]*|[A-Z]+")
MIN_WORDS = 6  # of a docstring's first sentence
MIN_LINES, MAX_CHARACTERS = 4, 600  # of a function

Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_pairs(package: Path) -> Pairs:
    """The wheel of Django: functions of a readable length; what only repeats the function's name is no question."""
    pages: dict[str, Page] = {}
    questions = []
    for path in sorted((package / "django").rglob("*.py")):
        module = ".".join(path.relative_to(package).with_suffix("").parts)
        for name, function in find_functions(ast.parse(path.read_text())):
            key = f"{module}.{name}"
            docstring = ast.get_docstring(function)
            if docstring:
                function.body = function.body[1:]
            code = ast.unparse(function) if function.body else ""
            if key in pages or code.count("\n") + 1 < MIN_LINES or len(code) > MAX_CHARACTERS:
                # A name that occurs twice is a property's setter.
                continue
            pages[key] = Page(key=key, title=f"{name} in {module}", text=code)
            sentence = join_lines(re.split(r"(?<=\.)\s|\n\n", docstring or "")[0])
            if len(sentence.split()) >= MIN_WORDS and not repeats_name(sentence, function.name):
                questions.append(Question(key=f"doc-{key}", text=sentence, answers=[key]))
    return Pairs(pages=[*pages.values()], questions=questions)


def find_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the functions of a module and the methods of its classes."""
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, Function):
                    yield f"{node.name}.{member.name}", member


def repeats_name(sentence: str, name: str) -> bool:
    return all(word in sentence.lower() for word in _WORD.findall(name.lower()))
