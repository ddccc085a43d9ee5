"""Change a JSON text in one place and leave every other character as it is: order, layout, comments."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

END = -1
_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')


class BrokenText(ValueError):
    """A settings file is not what its name says. The text has the line and the reason."""


@dataclass(kw_only=True, slots=True)
class Node:
    """A value and the values in it: by name in an object, by number in a list.

    It stands in the text from `start` to `end`; as a member it begins with its name, at `begin`.
    """

    begin: int
    start: int
    end: int
    value: Any = None
    children: "dict[str | int, Node]" = field(default_factory=dict)


def parse(text: str) -> Node:
    """Read JSON, also with comments and trailing commas. Raises BrokenText."""
    start = _skip(text, 0)
    node = _read(text, start)
    end = _skip(text, node.end)
    if end < len(text):
        raise _broken(text, end, "nothing may follow the end")
    return node


def find(text: str, path: tuple[str | int, ...]) -> Node | None:
    """Return what stands at a path, None where nothing does."""
    node: Node | None = parse(text)
    for step in path:
        node = node.children.get(step) if node else None
    return node


def insert(text: str, path: tuple[str | int, ...], value: Any) -> str:
    """Add a value: as the last member of an object, or to the end of a list where the path ends in END.

    What is missing on the way is made. Raises BrokenText where something else is in the way.
    """
    parent, depth = parse(text), 0
    while depth < len(path) - 1 and path[depth] in parent.children:
        parent, depth = parent.children[path[depth]], depth + 1
    name = path[depth]
    if not isinstance(parent.value, list if name == END else dict):
        kind = "a list" if name == END else "an object"
        raise _broken(text, parent.start, f"{'.'.join(map(str, path[:depth])) or 'the file'} must be {kind}")
    for step in reversed(path[depth + 1 :]):
        value = [value] if step == END else {step: value}
    unit = _indent(text)
    newline = ("\r\n" if "\r\n" in text else "\n") + unit * depth
    written = json.dumps(value, indent=unit, ensure_ascii=False)
    if name != END:
        written = f"{json.dumps(name, ensure_ascii=False)}: {written}"
    written = newline + unit + written.replace("\n", newline + unit)
    if parent.children:
        last = [*parent.children.values()][-1].end
        return f"{text[:last]},{written}{text[last:]}"
    inside = text[parent.start + 1 : parent.end - 1]
    closing = inside if "\n" in inside else inside.rstrip() + newline
    return text[: parent.start + 1] + written + closing + text[parent.end - 1 :]


def remove(text: str, path: tuple[str | int, ...]) -> str:
    """Take a value away, with the comma that parted it from its neighbour. Comments stay."""
    parent = find(text, path[:-1])
    assert parent is not None
    keys = [*parent.children]
    number, node = keys.index(path[-1]), parent.children[path[-1]]
    after = _skip(text, node.end)
    if 0 < number < len(keys) - 1:
        return text[: node.begin] + (text[node.end : after] + text[after + 1 :]).lstrip()
    if number > 0:
        comma = _skip(text, parent.children[keys[number - 1]].end)
        between, rest = text[comma + 1 : node.begin].rstrip(), text[node.end :]
        if "//" in between and not rest.lstrip(" \t").startswith(("\n", "\r")):
            rest = f"\n{rest}"  # which ends the comment
        return text[:comma] + between + rest
    rest = text[after + 1 :] if text[after] == "," else text[node.end :]
    if len(keys) > 1:
        return text[: node.begin] + rest.lstrip()
    if text[: node.begin].rstrip().endswith(("{", "[")) and rest.lstrip().startswith(("}", "]")):
        return text[: node.begin].rstrip() + rest.lstrip()
    return text[: node.begin] + rest


def _read(text: str, start: int) -> Node:
    """Read the value that begins at `start`."""
    if text[start : start + 1] not in ("{", "["):
        found = _SCALAR.match(text, start)
        try:
            value = json.loads(found[0] if found else "")
        except ValueError:
            raise _broken(text, start, "a value is expected") from None
        return Node(begin=start, start=start, end=found.end() if found else start, value=value)
    is_object = text[start] == "{"
    node = Node(begin=start, start=start, end=start, value={} if is_object else [])
    at = _skip(text, start + 1)
    while text[at : at + 1] != ("}" if is_object else "]"):
        begin, name = at, len(node.children)
        if is_object:
            if text[at : at + 1] != '"':
                raise _broken(text, at, "a name in double quotes is expected")
            quoted = _read(text, at)
            name = quoted.value
            if name in node.children:
                raise _broken(text, at, f"the name {name!r} appears twice")
            at = _skip(text, quoted.end)
            if text[at : at + 1] != ":":
                raise _broken(text, at, "a colon is expected")
            at = _skip(text, at + 1)
        child = _read(text, at)
        at = _skip(text, child.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != ("}" if is_object else "]"):
            raise _broken(text, at, "a comma or the closing bracket is expected")
        child.begin = begin
        node.children[name] = child
        if is_object:
            node.value[name] = child.value
        else:
            node.value.append(child.value)
    node.end = at + 1
    return node


def _skip(text: str, start: int) -> int:
    """Return where the next thing stands that is neither white space nor a comment."""
    found = _BLANK.match(text, start)
    return found.end() if found else start


def _indent(text: str) -> str:
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _broken(text: str, at: int, reason: str) -> BrokenText:
    return BrokenText(f"line {text.count(chr(10), 0, at) + 1}: {reason}.")
