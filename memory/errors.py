"""What the memory app refuses: one exception for each fact that a caller can act on."""

from collections.abc import Mapping, Sequence
from uuid import UUID


class MemoryAppError(Exception):
    """Base of every refusal and failure of the memory app."""

    code = "invalid_request"


class InvalidInput(MemoryAppError):
    """Something that was sent cannot be read; `fields` says what is wrong where.

    The places are JSON pointers for a body and names for query parameters.
    """

    def __init__(self, fields: Mapping[str, Sequence[str]], *, code: str = "invalid_request") -> None:
        self.fields = fields
        self.code = code
        texts = ((field, text) for field, texts in fields.items() for text in texts)
        super().__init__(" ".join(f"{field}: {text}" if field else text for field, text in texts))


class InvalidSteps(MemoryAppError):
    """The steps of a run are not in a form we can read; the message names the place."""

    code = "invalid_steps"

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer into the request, where the message begins with one: "/steps/0/action"."""
        path = str(self).partition(" ")[0]
        if not path.startswith("steps"):
            return ""
        return "/" + path.removeprefix("steps.").replace("[", "/").replace("]", "").replace(".", "/")


class InvalidMemoryFile(MemoryAppError):
    """A memory file is not in the form we can read; the message names the place."""

    code = "invalid_request"


class UnreadableFile(MemoryAppError):
    """A file of recorded runs, or one run in it, is not in a form we can read."""

    code = "invalid_request"


class DuplicateExternalId(MemoryAppError):
    """A trajectory with this external id exists in the project and says something else."""

    code = "external_id_taken"


class UnknownParent(MemoryAppError):
    """A run names a parent that is not a run of this project."""

    code = "not_found"
    pointer = "/parent_id"


class UnknownRun(MemoryAppError):
    """Evidence names a run that is not one of this project."""

    code = "not_found"

    def __init__(self, message: str, *, pointer: str) -> None:
        super().__init__(message)
        self.pointer = pointer


class RunIsOpen(MemoryAppError):
    """What is asked needs a finished run, and more steps of this one may come."""

    code = "run_is_open"


class RunIsFinished(MemoryAppError):
    """Steps or another ending are sent for a run that is finished."""

    code = "run_is_finished"


class RunOfAnotherClient(MemoryAppError):
    """An open run is added to or finished by another client than the one that opened it."""

    code = "permission_denied"


class StepsDiffer(MemoryAppError):
    """Steps are sent again that say something else, or steps before them are missing."""

    code = "steps_differ"


class UnknownRetrieval(MemoryAppError):
    """A run names a retrieval that was not answered in this project."""

    code = "unknown_retrieval"


class NoSuchRun(MemoryAppError):
    """Feedback does not name the run it is about."""

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


class CoveredByOrder(MemoryAppError):
    """A quarantine order covers the words, so nothing can serve them until it is lifted."""

    code = "covered_by_order"

    def __init__(self, order_id: UUID) -> None:
        self.order_id = order_id
        super().__init__(
            f"The quarantine order {order_id} covers these words, so they cannot be served and nothing was changed. If "
            "they are sound, ask an operator to lift the order, for all it covers or for this lesson alone."
        )


class OrderUnderWay(MemoryAppError):
    """A quarantine order is being placed in the project at this moment."""

    code = "conflict"


class CannotMerge(MemoryAppError):
    """The two heuristics cannot become one: the same, of two projects, or the other is not in use."""

    code = "cannot_merge"


class TooLateToUndo(MemoryAppError):
    """A person can take back their own decision for a few seconds, until something depends on it."""

    code = "conflict"


class NotAllowed(MemoryAppError):
    """The person may not decide on this project's lessons, or may no longer."""

    code = "permission_denied"


class ProjectArchived(MemoryAppError):
    """The project is archived: its lessons no longer wait for decisions."""

    code = "permission_denied"


class ClaimedByOther(MemoryAppError):
    """Another reviewer is deciding on this heuristic right now."""

    code = "conflict"


class SecondReviewerNeeded(MemoryAppError):
    """The project requires two reviewers, and this one has already approved these words."""

    code = "already_decided"


class NotReadYet(MemoryAppError):
    """Lessons can be decided together only if the person had these words on the screen and no check flagged them."""

    code = "invalid_request"


class NoRunToReflectOn(MemoryAppError):
    """No run is linked to the heuristic, so there is nothing to reflect on again."""

    code = "invalid_request"


class QueueFull(MemoryAppError):
    """More reflections of the project are waiting than its clients may have waiting."""

    code = "queue_full"
    retry_after_seconds = 30.0


class TooManyProposals(MemoryAppError):
    """As many lessons of one API client are waiting for review as ERL_PENDING_PROPOSALS_PER_CLIENT allows."""

    code = "too_many_proposals"
    retry_after_seconds = 300.0


class NoSuchRelease(MemoryAppError):
    """A release is named that is not one of the project."""

    code = "not_found"


class NotDeployable(MemoryAppError):
    """The deployment is in no state in which this can be done: there is no candidate, or nothing to go back to."""

    code = "not_deployable"


class EmbedderError(MemoryAppError):
    """The embedder returned no vector; retrieval continues with full text."""

    code = "embedder_unavailable"

    def __init__(self, message: str, *, transient: bool = True) -> None:
        super().__init__(message)
        self.transient = transient


class BlockFull(MemoryAppError):
    """The value of a block would be longer than its limit."""

    code = "block_full"

    def __init__(self, *, limit: int, length: int) -> None:
        self.limit = limit
        self.length = length
        self.overflow = length - limit
        super().__init__(
            f"The value would have {length:,} characters, {self.overflow:,} more than the limit of {limit:,}. Nothing "
            "was changed. Shorten the block or write less."
        )


class BlockReadOnly(MemoryAppError):
    """Agents may read the block, not edit it."""

    code = "block_read_only"


class NoSingleMatch(MemoryAppError):
    """The text to replace does not occur exactly once."""

    code = "no_single_match"

    def __init__(self, count: int) -> None:
        self.count = count
        occurrence = "does not occur in the block" if not count else f"occurs {count} times in the block"
        do = "Read the block and copy the text as it is there" if not count else "Give more of the text around it"
        super().__init__(f"The text to replace {occurrence}, not once, so nothing was changed. {do}.")


class PatchDoesNotApply(MemoryAppError):
    """A patch is no unified diff, or the lines it names are not in the block."""

    code = "patch_does_not_apply"


class UnusableText(MemoryAppError):
    """A text holds what cannot be stored: U+0000, or half of a surrogate pair."""

    code = "invalid_request"
