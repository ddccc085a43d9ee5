"""What the sandbox refuses or fails at."""

from memory.errors import MemoryAppError

BUSY = "All workers of the sandbox are busy. Try again in a moment."


class SandboxError(MemoryAppError):
    """The sandbox itself failed, or this host has none for what was asked. The message says what to do."""

    code = "sandbox_unavailable"


class InvalidSnapshot(SandboxError):
    """A stored snapshot was changed, or this installation did not make it."""


class SnapshotOfOtherVersion(SandboxError):
    """A snapshot was made by another version of the interpreter: replay the tool from its start."""
