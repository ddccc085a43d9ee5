"""The objects of a log, each with its place, and a way to look into them that no damage breaks."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from .chat import flatten
from .log import Json, Log, as_text, parse

Item = tuple[str, Mapping[str, Json]]
"""An object of a log, behind its place: "line 3", "messages[2]"."""
Items = Sequence[Item]
_IDS = ("uuid", "id", "source_line_id", "step_id")


def number(values: Json, where: str) -> list[Item]:
    """Return the objects of a list with their places; what is no object is not there."""
    return [item for item in number_all(values, where) if item[1]]


def number_all(values: Json, where: str) -> list[Item]:
    """Return the entries of a list with their places; what is no object is an empty one, so that it can be named."""
    values = parse(values)
    entries = values if isinstance(values, list) else []
    return once([(f"{where}[{at}]", value if isinstance(value, Mapping) else {}) for at, value in enumerate(entries)])


def once(items: Items) -> list[Item]:
    """Return the items without those that were written again, with the same id and content."""
    seen: dict[str, Mapping[str, Json]] = {}
    kept = []
    for item in items:
        id = first(text(item[1], name) for name in _IDS)
        if not id or seen.get(id) != item[1]:
            kept.append(item)
            seen[id] = item[1]
    return kept


def get(value: Json, *path: str) -> Json:
    """Return what stands at the end of a path of members, None where it leads nowhere."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def text(value: Json, *path: str) -> str:
    """Return the text at the end of a path; "" where there is none."""
    return as_text(get(value, *path))


def mapping(value: Json, *path: str) -> Mapping[str, Json]:
    """Return the object at the end of a path, an empty one where there is none."""
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
    """Return when the first and the last of some items happened, as a run has it."""
    found = [time for _, item in items if (time := get(item, *path))]
    return {"started_at": found[0], "ended_at": found[-1]} if found else {}


def read_each(log: Log, items: Items, read: Callable[[Log, Mapping[str, Json], str], bool | None]) -> None:
    """Read items one by one. One that `read` does not know (it returns False) is named, as is one it cannot read."""
    for where, item in items:
        with log.reading(where):
            if read(log, item, where) is False:
                kind = first(text(item, name) for name in ("type", "kind", "role", "source"))
                log.leave_out(where, f"an item of the unknown type {kind[:40]}" if kind else "an item without a type")
