"""The objects of a log, each with its place, and functions that read them safely even if they are damaged."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from .chat import flatten
from .log import Json, Log, as_text, parse

Item = tuple[str, Mapping[str, Json]]
"""An object of a log, after its place, such as "line 3" or "messages[2]"."""
Items = Sequence[Item]
_IDS = ("uuid", "id", "source_line_id", "step_id")


def number(values: Json, where: str) -> list[Item]:
    """Return the objects of a list with their places, without entries that are not objects."""
    return [item for item in number_all(values, where) if item[1]]


def number_all(values: Json, where: str) -> list[Item]:
    """Return the entries of a list with their places. What is not an object becomes an empty one."""
    values = parse(values)
    entries = values if isinstance(values, list) else []
    return once([(f"{where}[{at}]", value if isinstance(value, Mapping) else {}) for at, value in enumerate(entries)])


def once(items: Items) -> list[Item]:
    """Return the items without repetitions, which have the same id and content."""
    seen: dict[str, Mapping[str, Json]] = {}
    kept = []
    for item in items:
        id = first(text(item[1], name) for name in _IDS)
        if not id or seen.get(id) != item[1]:
            kept.append(item)
            seen[id] = item[1]
    return kept


def get(value: Json, *path: str) -> Json:
    """Return the value at the end of a path of members, None if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def text(value: Json, *path: str) -> str:
    """Return the text at the end of a path, "" if there is none."""
    return as_text(get(value, *path))


def mapping(value: Json, *path: str) -> Mapping[str, Json]:
    """Return the object at the end of a path, an empty one if there is none."""
    found = parse(get(value, *path))
    return found if isinstance(found, Mapping) else {}


def content(log: Log, value: Json, where: str) -> str:
    """Return a message's content as text: a string, or the parts of a list on lines of their own."""
    value = parse(value) if isinstance(value, str) and value.startswith('[{"') else value
    return flatten(log, value, where) if isinstance(value, list) else as_text(value)


def members(value: Mapping[str, Json], *names: str) -> dict[str, Json]:
    """Return the named members that say something."""
    return {name: value[name] for name in names if value.get(name) not in (None, "", [], {})}


def first(values: Iterable[str]) -> str:
    """Return the first text that is not empty."""
    return next((value for value in values if value), "")


def times(items: Items, *path: str) -> dict[str, Json]:
    """Return the times of the first and the last item, as members of a run."""
    found = [time for _, item in items if (time := get(item, *path))]
    return {"started_at": found[0], "ended_at": found[-1]} if found else {}


def read_each(log: Log, items: Items, read: Callable[[Log, Mapping[str, Json], str], bool | None]) -> None:
    """Read items one by one. Those that `read` does not know (it returns False) or cannot read are left out."""
    for where, item in items:
        with log.reading(where):
            if read(log, item, where) is False:
                kind = first(text(item, name) for name in ("type", "kind", "role", "source"))
                log.leave_out(where, f"an item of the unknown type {kind[:40]}" if kind else "an item without a type")
