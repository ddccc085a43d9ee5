"""What keeps an evaluation from running."""


class EvaluationError(Exception):
    """An evaluation cannot run or go on; the message says what to do."""


class SandboxUnavailable(EvaluationError):
    """There is no database of its own to evaluate in."""


class SandboxTaken(EvaluationError):
    """Somebody else evaluates in the sandbox now."""


class LabelIndexed(EvaluationError):
    """The truth would be part of what is searched, so a figure would mean nothing."""


class DatabaseBehind(EvaluationError):
    """The database lacks tables that this code needs."""


class ProcessEnded(EvaluationError):
    """The process that evaluates is gone before it was done."""
