"""Reasons why an evaluation cannot run."""

from reflection.errors import ReflectionError


class EvaluationError(Exception):
    """The evaluation cannot run or continue; the message says what to do."""


class SandboxUnavailable(EvaluationError):
    """There is no sandbox database, and it cannot be created."""


class SandboxTaken(EvaluationError):
    """Another evaluation is using the sandbox."""


class LabelIndexed(EvaluationError):
    """The right answers are part of what is searched or learnt, so the figures would mean nothing."""


class DatabaseBehind(EvaluationError):
    """Migrations are missing from the database."""


class ProcessEnded(EvaluationError):
    """The evaluating process ended before it was done."""


class PlanInvalid(EvaluationError):
    """The plan of an experiment cannot be carried out."""


class ExperimentRunning(EvaluationError):
    """The deployment already has a running experiment; a second would disturb it."""


class ExperimentEnded(EvaluationError):
    """The experiment has ended; what it found stays as it is."""


class EvolutionRunning(EvaluationError):
    """The agent is evolving; a second evolution would propose from the same runs."""


class EvolutionStopped(EvaluationError, ReflectionError):
    """An evolution that was started cannot go on, and another attempt would not help."""

    code = "evolution_stopped"
