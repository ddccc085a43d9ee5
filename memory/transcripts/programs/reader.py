"""What a program's module gives to the table of readers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..items import Items
from ..log import Json, Transcript


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reader:
    """Reads the logs of one program.

    `owns` tells an object that only this program writes. `read` gets all objects of a log, also damaged and unknown
    ones, and returns its runs; it names what it leaves out, and raises nothing. `expects` says in a few words what a
    readable log holds, for a person whose log is not. A log is a list of lines, or with `is_document` a single object.
    """

    name: str
    owns: Callable[[Mapping[str, Json]], bool]
    read: Callable[[Items], list[Transcript]]
    expects: str
    unit: str = "line"
    is_document: bool = False
    names: Mapping[str, str] = field(default_factory=dict)  # of programs that share it, by the format of a run
