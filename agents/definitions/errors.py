"""What is wrong with a definition, or with the arguments of a call."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory.errors import MemoryAppError


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a definition, and the line (from 1) where it is."""

    message: str
    line: int | None = None

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class InvalidDefinition(MemoryAppError):
    """A tool or agent is not defined as it should be."""

    code = "invalid_definition"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


class InvalidArguments(MemoryAppError):
    """The arguments of a call do not fit the tool's schema; the message names each that does not."""

    code = "invalid_arguments"
