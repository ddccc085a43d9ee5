"""What the module of a program defines: a reader of its logs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..items import Items
from ..log import Json, Transcript


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Reader:
    """Reads the logs of one program.

    `owns` tells whether only this program writes an object. `read` gets all objects of a log, including damaged and
    unknown ones, and returns its runs; it lists what it leaves out, and raises nothing. `expects` says in a few words
    what a readable log contains, for a person whose log cannot be read. A log is a list of lines or, with
    `is_document`, a single object.
    """

    name: str
    owns: Callable[[Mapping[str, Json]], bool]
    read: Callable[[Items], list[Transcript]]
    expects: str
    unit: str = "line"
    is_document: bool = False
    names: Mapping[str, str] = field(default_factory=dict)  # of programs that share the reader, by the format of a run
