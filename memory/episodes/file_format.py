"""What an agent's own memory file looks like: its members, what is refused, and how single values are read."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any, TypeGuard

from memory.errors import InvalidMemoryFile

VERSION = 1
# The members that are known, in the order they are written; all may be missing, and others are kept as they are.
MEMBERS: dict[str, type[list[Any]] | type[dict[str, Any]]] = {
    "global_rules": list,
    "task_rules": dict,
    "episode_log": list,
    "score_history": dict,
    "mistakes": list,
    "mistake_cards": list,
    "successes": list,
}
_FIRST_YEAR, _LAST_YEAR = 1970, 2199  # the database keeps years that Python cannot read


def check_document(document: Any) -> None:
    """Check the parts of a file that become rows.

    Raises:
        InvalidMemoryFile: a part has the wrong type; the message names it.
    """
    if not isinstance(document, dict):
        raise InvalidMemoryFile("The file is not a JSON object. Export it from the agent again.")
    # An empty object is an empty memory.
    if document and not MEMBERS.keys() & document.keys():
        raise InvalidMemoryFile(
            f"This is not an agent's memory file: it has none of the members {', '.join(MEMBERS)}. Logs of runs are "
            "imported with manage.py import_trajectories."
        )
    for name, wanted in MEMBERS.items():
        _check_type(name, document.get(name, wanted()), wanted)
    for task_id, rules in document.get("task_rules", {}).items():
        _check_type(f"task_rules.{task_id}", rules, list)
    for number, episode in enumerate(document.get("episode_log", [])):
        _check_type(f"episode_log[{number}]", episode, dict)
        score = episode.get("score")
        if score is not None and read_score(score) is None:
            raise InvalidMemoryFile(
                f"episode_log[{number}].score is not a number from 0 to 1. Correct the file and import it again."
            )


def _check_type(place: str, value: Any, wanted: type) -> None:
    if not isinstance(value, wanted):
        name = "a list" if wanted is list else "an object"
        raise InvalidMemoryFile(f"{place} is not {name}. Correct the file and import it again.")


def read_score(value: Any) -> float | None:
    """Return a number from 0 to 1, and None for anything else."""
    # True is an integer to Python, and no score.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        return None
    return float(value)


def read_time(episode: dict[str, Any]) -> datetime | None:
    """Return when an episode says it was, if that is a time that Python and the database both keep."""
    try:
        at = datetime.fromisoformat(str(episode.get("timestamp", "")))
    except ValueError:
        return None
    if not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        return None
    # Files of agents have times without a zone; the database needs one.
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def read_texts(value: Any) -> list[str]:
    """Return the entries of a list that say something, as texts."""
    return [str(entry) for entry in value if str(entry).strip()] if isinstance(value, list) else []


def is_count(value: Any) -> TypeGuard[int]:
    """Tell whether a value is a whole number from 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def hash_value(value: Any) -> str:
    """Return the SHA-256 of a JSON value, whatever the order of its members."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
