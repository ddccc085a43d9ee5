"""What the memory app refuses, as facts a caller can act on."""


class MemoryAppError(Exception):
    """Base of every refusal and failure of the memory app."""

    code = "invalid_request"


class InvalidSteps(MemoryAppError):
    """The steps of a trajectory are in no form we can read; the message names the place."""

    code = "invalid_steps"

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer into the request, where the message begins with one: "/steps/0/action"."""
        place = str(self).partition(" ")[0]
        if not place.startswith("steps"):
            return ""
        return "/" + place.removeprefix("steps.").replace("[", "/").replace("]", "").replace(".", "/")


class InvalidMemoryFile(MemoryAppError):
    """A memory file is not in the form we can read; the message names the place."""

    code = "invalid_request"


class UnreadableFile(MemoryAppError):
    """A file of recorded runs as a whole, or one run of it, is in no form we can read."""

    code = "invalid_request"


class DuplicateExternalId(MemoryAppError):
    """A trajectory with this external id exists in the project and says something else."""

    code = "external_id_taken"


class UnknownRetrieval(MemoryAppError):
    """The answer a run says it was given was not given in this project."""

    code = "unknown_retrieval"


class NoSuchRun(MemoryAppError):
    """Feedback names no run that it is about."""

    code = "feedback_without_run"


class NothingChanged(MemoryAppError):
    """The new wording is the same as the present one."""

    code = "nothing_changed"


class ChangedMeanwhile(MemoryAppError):
    """The text was changed after the caller read it, so the decision does not apply to it."""

    code = "changed_meanwhile"


class AlreadyDecided(MemoryAppError):
    """The heuristic is not in a state in which this decision can be taken."""

    code = "already_decided"


class NotServable(MemoryAppError):
    """A heuristic that is not served cannot be retired or quarantined."""

    code = "not_servable"


class CannotMerge(MemoryAppError):
    """The two heuristics cannot become one: the same, of two projects, or the other is not in use."""

    code = "cannot_merge"


class TooLateToUndo(MemoryAppError):
    """A decision can be taken back by the person who took it, for a few seconds, while nothing followed it."""

    code = "conflict"


class NotAllowed(MemoryAppError):
    """Whoever decides has not, or no longer, the right to decide on this project's lessons."""

    code = "permission_denied"


class ProjectArchived(MemoryAppError):
    """The project is archived: nothing in it waits for a decision any more."""

    code = "permission_denied"


class ClaimedByOther(MemoryAppError):
    """Another reviewer is deciding on this heuristic at the moment."""

    code = "conflict"


class SecondReviewerNeeded(MemoryAppError):
    """The project asks for two people, and this one has approved these words already."""

    code = "already_decided"


class TooManyAtOnce(MemoryAppError):
    """More was selected than a person can answer for at once."""

    code = "invalid_request"


class NotReadYet(MemoryAppError):
    """Decided together is only what the person had on the screen in these words and what no check flagged."""

    code = "invalid_request"


class NoRunToReflectOn(MemoryAppError):
    """No run is linked to the heuristic, so none can be reflected on again."""

    code = "invalid_request"


class QueueFull(MemoryAppError):
    """More reflections of the project wait than its clients may have waiting."""

    code = "queue_full"
    retry_after_seconds = 30.0


class TooManyProposals(MemoryAppError):
    """As many lessons of one API client wait for a reviewer as ERL_PENDING_PROPOSALS_PER_CLIENT allows."""

    code = "too_many_proposals"
    retry_after_seconds = 300.0


class EmbedderError(MemoryAppError):
    """The embedder gave no vector; retrieval goes on with full text."""

    code = "embedder_unavailable"

    def __init__(self, message: str, *, transient: bool = True) -> None:
        super().__init__(message)
        self.transient = transient
