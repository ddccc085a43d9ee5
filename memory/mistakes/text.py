"""What a mistake card says."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class MistakeText:
    """What a mistake card says. It says at least one of `bad_decision`, `correct_decision` and `lesson`."""

    mistake_type: str
    task_id: str = ""
    worker_id: str = ""
    bad_decision: str = ""
    correct_decision: str = ""
    evidence: str = ""
    lesson: str = ""
