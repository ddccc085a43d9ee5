"""Find every regular expression of the tree, and count the steps that matching takes.

The matcher below backtracks as Python's does, but counts, so that growth is measured exactly on however busy a machine.
Repetitions with a small upper limit count as short ones: they cost at most a constant.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import inf, log
from pathlib import Path
from typing import Any

import erl_site.urls  # noqa: F401  # the pages of the admin, in their order
from tests.stack import PACKAGES, ROOT

op, _parser = importlib.import_module("re._constants"), importlib.import_module("re._parser")
CLIENT = ROOT / "clients/python/src"
SOURCES = (*PACKAGES, "clients/python/src/erl_client")
FUNCTIONS = ("compile", "search", "match", "fullmatch", "split", "findall", "finditer", "sub", "subn")
AT_ONE_PLACE = ("memory.redaction.formats._BY_HEAD",)  # tried where `_HEADS` found the beginning of a token
WINDOW_CHARS = 6
SMALL = 200  # a repetition up to so many times is a constant
SHORT, LONGEST = 16, 1_000  # repetitions of the part that is pumped
MOST_GROWTH = 1.1
MOST_STEPS = 400  # for each character
_ALPHABET = [chr(code) for code in range(9, 127)] + ["\x00", "é", "—", "“", "…", "中"]
_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


# The expressions of the tree


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """A regular expression, where it stands, and whether it is tried at each place of a text or at one only."""

    where: str
    pattern: str | bytes
    flags: int
    everywhere: bool = True


def find_uses() -> tuple[list[Use], list[str]]:
    """Return the expressions of the tree, and the places of those that cannot be told without running the code."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in _sources()}
    uses: dict[tuple[Any, ...], Use] = {}
    untold = []
    public = _methods(trees.values())
    for path, tree in trees.items():
        module = importlib.import_module(_module_name(path))
        patterns = dict(_patterns(vars(module)))
        private = _methods([tree])
        for name, pattern in patterns.items():
            called = (private if name.startswith("_") else public).get(name, set())
            once = (bool(called) and called <= set(_ONCE)) or f"{module.__name__}.{name}".startswith(AT_ONE_PLACE)
            _add(uses, f"{module.__name__}.{name}", pattern.pattern, pattern.flags, everywhere=not once)
        for call in _calls(tree):
            place = f"{path.relative_to(ROOT)}:{ast.unparse(call.args[0])}"
            try:
                pattern, flags = _value(call.args[0], vars(module)), _flags(call, vars(module))
            except (NameError, TypeError):
                untold.append(place)
                continue
            function = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if isinstance(pattern, re.Pattern) or (function == "compile" and _is_held(pattern, patterns)):
                continue
            _add(uses, place, pattern, re.compile(pattern, flags).flags, everywhere=function not in _ONCE)
    for path in sorted((ROOT / "templates").rglob("*.js")):
        for pattern in _SCRIPT_LITERAL.findall("" if ".min." in path.name else path.read_text(encoding="utf-8")):
            _add(uses, f"{path.relative_to(ROOT)}:{pattern}", pattern, re.ASCII)
    return list(uses.values()), untold


def find_database_expressions() -> list[str]:
    """Return the expressions that PostgreSQL runs: those of SQL files, constraints and queries."""
    found = []
    for path in sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.sql")):
        found += _SQL_LITERAL.findall(path.read_text(encoding="utf-8"))
    for path in _sources(wanted="regex="):
        calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
        module = importlib.import_module(_module_name(path))
        for keyword in (keyword for call in calls for keyword in call.keywords):
            if (keyword.arg or "").endswith(("__regex", "__iregex")):
                found.append(_value(keyword.value, vars(module)))
    return found


_SCRIPT_LITERAL = re.compile(r"[(,=:]\s?/(?![/*])((?:\\.|\[[^\]\n]*\]|[^/\\\n\[])+)/[gimsuy]*")
_SQL_LITERAL = re.compile(r"(?:regexp_\w+\([^';]{0,200}|(?<=\s)!?~\*?\s*)'((?:[^']|'')*)'")
_ONCE = ("match", "fullmatch")


def _add(uses: dict[tuple[Any, ...], Use], where: str, pattern: Any, flags: int, *, everywhere: bool = True) -> None:
    uses.setdefault((pattern, flags, everywhere), Use(where=where, pattern=pattern, flags=flags, everywhere=everywhere))


def _is_held(pattern: Any, patterns: Mapping[str, "re.Pattern[Any]"]) -> bool:
    return any(held.pattern == pattern for held in patterns.values())


def _sources(wanted: str = "re.") -> Iterator[Path]:
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts and wanted in path.read_text(encoding="utf-8"):
                yield path


def _module_name(path: Path) -> str:
    below = path.relative_to(CLIENT if path.is_relative_to(CLIENT) else ROOT)
    return ".".join(below.with_suffix("").parts).removesuffix(".__init__")


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS:
            yield from [node] if ast.unparse(node.func.value) == "re" else ()


def _methods(trees: Any) -> dict[str, set[str]]:
    """Return by which methods the expressions with a name are used."""
    methods: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
                held = node.value
                name = held.id if isinstance(held, ast.Name) else getattr(held, "attr", "")
                methods.setdefault(name, set()).add(node.attr)
    return methods


def _patterns(values: Mapping[str, Any]) -> Iterator[tuple[str, "re.Pattern[Any]"]]:
    """Yield the compiled expressions that a module holds, also inside of what it holds."""
    seen: set[int] = set()
    waiting = [(name, value) for name, value in values.items() if not name.startswith("__")]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, re.Pattern):
            yield name, value
            continue
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            inner = [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            inner = list(value)
        elif inspect.isfunction(value):
            inner = [cell.cell_contents for cell in value.__closure__ or ()]
        elif "__dataclass_fields__" in dir(type(value)):
            inner = [getattr(value, each, None) for each in type(value).__dataclass_fields__]
        else:
            continue
        waiting += [(f"{name}[{number}]", each) for number, each in enumerate(inner)]


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Return what an expression is worth; a value that is put into it counts as a word."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(_value(part, names)) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        try:
            return _value(node.value, names)
        except NameError:
            return "word"
    if isinstance(node, ast.BinOp):
        return _value(node.left, names) + _value(node.right, names)
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "re.escape":
        return "word"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "'|'.join":
        return "word|other"
    return eval(compile(ast.Expression(node), "", "eval"), dict(names))  # noqa: S307 - our own source


def _flags(call: ast.Call, names: Mapping[str, Any]) -> int:
    given = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
    function = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    place = {"compile": 1, "search": 2, "match": 2, "fullmatch": 2, "findall": 2, "finditer": 2}.get(function, 9)
    given += call.args[place : place + 1]
    return int(_value(given[0], names)) if given else 0


# A matcher that counts


Test = Callable[[str], bool]


@dataclass(kw_only=True, slots=True)
class Program:
    """Instructions: a name and its operands. `tests` are those of repetitions without a small limit."""

    code: list[tuple[Any, ...]] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)
    loops: list[tuple[int, Any]] = field(default_factory=list)


class TooManySteps(Exception):
    pass


class Matcher:
    """An expression as a program. Raises TooManySteps where a text takes more than it may."""

    def __init__(self, use: Use) -> None:
        text = use.pattern if isinstance(use.pattern, str) else use.pattern.decode("latin-1")
        flags = use.flags if isinstance(use.pattern, str) else use.flags | re.ASCII
        self.flags = flags & ~re.UNICODE if flags & re.ASCII else flags
        self.tree = _parser.parse(text, self.flags & ~re.TEMPLATE if hasattr(re, "TEMPLATE") else self.flags)
        self.flags = int(self.flags | self.tree.state.flags)
        self.everywhere = use.everywhere
        self.program = Program()
        self.steps = 0
        self.most = 0
        self.seen = 0  # the first character that was not looked at
        self.looks_back = 1
        self.tried: dict[str, tuple[int, int | None]] = {}
        self._emit(self.tree, self.program)
        self.program.code.append(("end",))

    def count(self, text: str) -> int:
        """Return how many steps it takes to look for all matches in a text."""
        self.steps, self.most = 0, MOST_STEPS * max(len(text), SHORT)
        at = 0
        while at <= len(text):
            end = self._try(text, at)
            if not self.everywhere:
                break
            at = at + 1 if end is None or end <= at else end
        return self.steps

    def _try(self, text: str, at: int) -> int | None:
        """Return where a match at a place ends. What looked at a few characters only costs the same beside the same."""
        near = [text[at - 1 : at + width] for width in range(1, WINDOW_CHARS)] if at else []
        if key := next((key for key in near if key in self.tried), None):
            steps, length = self.tried[key]
            self.steps += steps
            return None if length is None else at + length
        self.seen, before = at, self.steps
        end = self._run(self.program.code, text, at, {})
        if at and self.looks_back <= 1 and self.seen <= len(text) and self.seen - at < WINDOW_CHARS:
            key = text[at - 1 : max(self.seen, at + 1)]
            self.tried[key] = (self.steps - before, None if end is None else end - at)
        return end

    def _emit(self, tree: Any, program: Program) -> None:
        for name, value in tree:
            self._emit_node(name, value, program)

    def _emit_node(self, name: Any, value: Any, program: Program) -> None:
        code = program.code
        if (test := self._test(name, value)) is not None:
            code.append(("char", test))
        elif name is op.BRANCH:
            ends = []
            for number, branch in enumerate(value[1]):
                split = len(code)
                code.append(("split",))
                self._emit(branch, program)
                ends.append(len(code))
                code.append(("jump",))
                is_last = number == len(value[1]) - 1
                code[split] = ("jump", split + 1) if is_last else ("split", split + 1, len(code))
            for end in ends:
                code[end] = ("jump", len(code))
        elif name is op.SUBPATTERN:
            group, *_, inner = value
            code.append(("mark", 2 * group) if group else ("jump", len(code) + 1))
            self._emit(inner, program)
            code.append(("mark", 2 * group + 1) if group else ("jump", len(code) + 1))
        elif name in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            least, most, tree = value
            self._emit_repeat(name, least, most, tree, program)
        elif name is op.ATOMIC_GROUP:
            code.append(("atomic", self._inner(value, program)))
        elif name in (op.ASSERT, op.ASSERT_NOT):
            direction, tree = value
            width = tree.getwidth()[0] if direction < 0 else 0
            self.looks_back = max(self.looks_back, width)
            code.append(("look", self._inner(tree, program), width, name is op.ASSERT))
        elif name is op.AT:
            code.append(("at", value))
        elif name is op.GROUPREF:
            code.append(("same", value))
        else:
            raise NotImplementedError(name)

    def _emit_repeat(self, name: Any, least: int, most: Any, tree: Any, program: Program) -> None:
        code = program.code
        is_small = most is not op.MAXREPEAT and most <= SMALL
        most = max(least, min(int(most), 3)) if is_small else -1
        if not is_small:
            program.loops.append((len(code), tree))
        if len(tree) == 1 and (test := self._test(*tree[0])) is not None:
            code.append(("many", test, least, most, name))
            program.tests += [] if is_small else [test]
            return
        if name is op.POSSESSIVE_REPEAT:
            inner = Program()
            self._emit_repeat(op.MAX_REPEAT, least, op.MAXREPEAT if most < 0 else most, tree, inner)
            inner.code.append(("end",))
            program.tests += inner.tests
            code.append(("atomic", inner.code))
            return
        for _ in range(least):
            self._emit(tree, program)
        skips = []
        for _ in range(most - least if most >= 0 else 1):
            split = len(code)
            skips.append(split)
            code.append(("split",))
            code.append(("mark", -split - 1))
            self._emit(tree, program)
            if most < 0:
                code.append(("loop", split, -split - 1))
        for split in skips:
            ways = (split + 1, len(code))
            code[split] = ("split", *(ways if name is op.MAX_REPEAT else ways[::-1]))

    def _inner(self, tree: Any, program: Program) -> list[tuple[Any, ...]]:
        inner = Program()
        self._emit(tree, inner)
        inner.code.append(("end",))
        program.tests += inner.tests
        program.loops += [(-1, body) for _, body in inner.loops]
        return inner.code

    def _test(self, name: Any, value: Any) -> Test | None:
        if name is op.ANY:
            return cache(lambda char: bool(self.flags & re.DOTALL) or char != "\n")
        if name is op.LITERAL:
            return cache(lambda char: bool(self._forms(char) & self._forms(chr(value))))
        if name is op.NOT_LITERAL:
            return cache(lambda char: not self._forms(char) & self._forms(chr(value)))
        if name is op.IN:
            return cache(lambda char: any(self._is_in(each, value) for each in self._forms(char)))
        if name is op.SUBPATTERN and len(value[-1]) == 1 and value[0] is None:
            return self._test(*value[-1][0])
        return None

    def _forms(self, char: str) -> frozenset[str]:
        return frozenset({char, char.lower(), char.upper()} if self.flags & re.IGNORECASE else {char})

    def _is_in(self, char: str, items: Sequence[Any]) -> bool:
        negated = items[0][0] is op.NEGATE
        inside = False
        for name, value in items[1:] if negated else items:
            if name is op.LITERAL:
                inside |= ord(char) == value
            elif name is op.RANGE:
                inside |= value[0] <= ord(char) <= value[1]
            else:
                inside |= re.match(_CATEGORIES[value], char, self.flags & re.ASCII) is not None
        return inside != negated

    def _run(self, code: list[tuple[Any, ...]], text: str, start: int, marks: dict[int, int]) -> int | None:
        waiting: list[tuple[Any, ...]] = [(0, start, marks)]
        at: int
        while waiting:
            pc, at, marks, *rest = waiting.pop()
            if rest and isinstance(rest[0], int):  # a greedy repetition of one character gives back one more
                if at > rest[0]:
                    waiting.append((pc, at - 1, marks, rest[0]))
            elif rest:  # a lazy one takes one more
                test, limit = rest[0], rest[1]
                self.seen = max(self.seen, at + 1)
                if at >= limit or not test(text[at]):
                    continue
                at += 1
                waiting.append((pc, at, marks, test, limit))
            while True:
                self.steps += 1
                self.seen = max(self.seen, at + 1)
                if self.steps > self.most:
                    raise TooManySteps
                name, *operands = code[pc]
                if name == "end":
                    return at
                if name == "char":
                    if at >= len(text) or not operands[0](text[at]):
                        break
                    pc, at = pc + 1, at + 1
                elif name == "many":
                    test, least, most, kind = operands
                    end, limit = at, len(text) if most < 0 else min(len(text), at + most)
                    stop = min(limit, at + least) if kind is op.MIN_REPEAT else limit
                    while end < stop and test(text[end]):
                        end += 1
                    self.steps += end - at
                    self.seen = max(self.seen, end + 1)
                    if end - at < least:
                        break
                    if kind is op.MAX_REPEAT and end > at + least:
                        waiting.append((pc + 1, end - 1, marks, at + least))
                    elif kind is op.MIN_REPEAT:
                        waiting.append((pc + 1, end, marks, test, limit))
                    pc, at = pc + 1, end
                elif name == "split":
                    waiting.append((operands[1], at, marks))
                    pc = operands[0]
                elif name == "jump":
                    pc = operands[0]
                elif name == "mark":
                    marks = {**marks, operands[0]: at}
                    pc += 1
                elif name == "loop":  # a body that took nothing is not tried again
                    pc = operands[0] if marks[operands[1]] != at else pc + 1
                elif name == "at":
                    if not self._is_at(operands[0], text, at):
                        break
                    pc += 1
                elif name == "atomic":
                    ended = self._run(operands[0], text, at, marks)
                    if ended is None:
                        break
                    pc, at = pc + 1, ended
                elif name == "look":
                    inner, width, wanted = operands
                    if (at >= width and self._run(inner, text, at - width, marks) is not None) != wanted:
                        break
                    pc += 1
                else:  # "same"
                    said = text[marks.get(2 * operands[0], 0) : marks.get(2 * operands[0] + 1, 0)]
                    self.steps += len(said)
                    if not text.startswith(said, at):
                        break
                    pc, at = pc + 1, at + len(said)
        return None

    def _is_at(self, kind: Any, text: str, at: int) -> bool:
        before, after = text[at - 1 : at] if at else "", text[at : at + 1]
        lines = bool(self.flags & re.MULTILINE)
        if kind is op.AT_BEGINNING_STRING or (kind is op.AT_BEGINNING and not lines):
            return at == 0
        if kind is op.AT_BEGINNING:
            return before in ("", "\n")
        if kind is op.AT_END_STRING:
            return not after
        if kind is op.AT_END:
            return not after or (after == "\n" and (lines or at == len(text) - 1))
        is_word = [bool(side) and (side.isalnum() or side == "_") for side in (before, after)]
        return (is_word[0] != is_word[1]) == (kind is op.AT_BOUNDARY)


# Texts that make an expression work


def measure_growth(use: Use) -> tuple[float, str]:
    """Return the exponent by which steps grow with the length of the worst text, and that text, shortened."""
    matcher = Matcher(use)
    worst = (0.0, "")
    if not matcher.program.loops:  # each place of a text costs at most a constant
        return worst
    for start, pump, end in _attacks(matcher):
        growth = MOST_GROWTH
        size = SHORT
        while growth >= MOST_GROWTH and size < LONGEST:  # what a text takes at its ends weighs less in a longer one
            growth = _growth(matcher, [start + pump * times + end for times in (size, 4 * size)])
            size *= 4
        worst = max(worst, (growth, f"{start!r} + {pump!r} * n + {end!r}"))
        if worst[0] >= MOST_GROWTH:
            break
    return worst


def _growth(matcher: Matcher, texts: Sequence[str]) -> float:
    try:
        few, many = map(matcher.count, texts)
    except TooManySteps:
        return inf
    return log(many / few) / log(len(texts[1]) / len(texts[0]))


def _attacks(matcher: Matcher) -> Iterator[tuple[str, str, str]]:
    tests: list[Test] = [*matcher.program.tests, "\n".__eq__]
    kinds: dict[tuple[bool, ...], str] = {}
    for char in sorted(_ALPHABET, key=lambda char: (not char.isalnum(), char)):
        kinds.setdefault(tuple(test(char) for test in tests), char)
    chars = list(kinds.values())[:8]
    none = next((char for kind, char in kinds.items() if not any(kind)), "\x00")
    starts, bodies = _samples(matcher)
    pumps = [*chars, *(a + b for a, b in product(chars[:4], chars[:4]) if a != b), *bodies, *starts]
    pumps += [f"{start}{char}" for start in starts for char in chars[:1] if start]
    pumps += [a + b for a, b in product(bodies[:3], bodies[:3])]
    pumps = list(dict.fromkeys(pump for pump in pumps if pump))
    yield from (("", pump, none) for pump in pumps)
    yield from ((start, pump, none) for start in starts if start for pump in [*chars, *bodies])


def _samples(matcher: Matcher) -> tuple[list[str], list[str]]:
    """Return texts that lead to each unlimited repetition, and texts that its body matches."""
    starts: dict[str, None] = {}
    bodies: dict[str, None] = {}

    def walk(tree: Any, heads: list[str]) -> None:
        for name, value in tree:
            if name in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
                starts.update(dict.fromkeys(heads[:2]))
                walk(value[2], heads)
                if value[1] is op.MAXREPEAT or value[1] > SMALL:
                    bodies.update(dict.fromkeys(_words(matcher, value[2])))
            elif name is op.SUBPATTERN:
                walk(value[-1], heads)
            elif name is op.BRANCH:
                for branch in value[1]:
                    walk(branch, heads)
            elif name is op.ATOMIC_GROUP:
                walk(value, heads)
            heads = [head + word for head in heads[:2] for word in _node_words(matcher, name, value)[:2]]
        starts.update(dict.fromkeys(heads[:2]))

    walk(matcher.tree, [""])
    return [start for start in starts if len(start) < 40][:12], [body for body in bodies if body][:10]


def _words(matcher: Matcher, tree: Any) -> list[str]:
    words = [""]
    for name, value in tree:
        words = [word + more for word in words for more in _node_words(matcher, name, value)][:10]
    return words


def _node_words(matcher: Matcher, name: Any, value: Any) -> list[str]:
    if (test := matcher._test(name, value)) is not None:
        fitting = [char for char in ("a", " ", "-", *_ALPHABET) if test(char)]
        if name is op.LITERAL:
            return [chr(value)]
        return fitting[:1] + [char for char in fitting[1:] if not char.isalnum()][:1]
    if name is op.BRANCH:
        return [word for branch in value[1] for word in _words(matcher, branch)[:2]]
    if name is op.SUBPATTERN:
        return _words(matcher, value[-1])
    if name is op.ATOMIC_GROUP:
        return _words(matcher, value)
    if name in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
        least, _, tree = value
        return [word * max(1, least) for word in _words(matcher, tree)] + ([""] if not least else [])
    return [""]
