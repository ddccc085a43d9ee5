"""What an erasure does with each column of the database that holds text.

A test compares this register with the migrated tables, so that a new column fails until it is here, and writes into
every column to see that it is true (tests/security/test_text_columns.py). Other apps add the columns of their tables.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple


class Fate(StrEnum):
    """What becomes of the text of a column when the run it comes from is erased."""

    DELETED = "deleted"  # with its row, if the row rests on the run alone
    CLEARED = "cleared"  # where it is about the run; the row stays
    KEPT = "kept"  # it may quote a run; the reason says why it stays
    NO_TEXT = "no text"  # names, codes, hashes and numbers that no run can fill


class Columns(NamedTuple):
    """Columns of one table with the same fate, and why."""

    names: str
    fate: Fate
    why: str


_NAMES = "names that the API client or its operator chose"
_MACHINE = "written by ERL: codes, names, hashes, numbers"
_SIGNED = "labels of accounts, keys and policies"
_PEOPLE = "people wrote it about a lesson that stays"
_STAYS = "others reported it too, or a person approved it; only a person can judge what it says about one run"

_REGISTER: dict[str, tuple[Columns, ...]] = {
    # ── Runs ──────────────────────────────────────────────────────────────────────────────────────────────────────
    "memory_trajectory": (
        Columns(
            "task task_id steps tools agent model tags summary mistakes successes mistake_cards "
            "metadata redactions external_id client request_id spans",
            Fate.DELETED,
            "the run itself",
        ),
        Columns("outcome outcome_source", Fate.NO_TEXT, _MACHINE),
    ),
    "memory_taskvector": (Columns("embedding_model_id", Fate.NO_TEXT, _MACHINE),),
    # ── Lessons ───────────────────────────────────────────────────────────────────────────────────────────────────
    "memory_heuristic": (
        Columns(
            "status reflector reflector_version model prompt_version review_basis risk_flags usefulness_basis "
            "usefulness_version harm kind identity_sha256",
            Fate.NO_TEXT,
            _MACHINE,
        ),
        Columns("details", Fate.KEPT, "of a mistake: as it was in a memory file, which is not from a run"),
        Columns("external_id metadata", Fate.DELETED, "with lessons of this run alone"),
        Columns("client", Fate.NO_TEXT, _NAMES),
    ),
    "memory_heuristicrevision": (
        Columns(
            "trigger guideline avoid not_when rationale task_id worker_id tags source_task search names",
            Fate.DELETED,
            "lessons and mistakes of this run alone, and wordings that quote its task",
        ),
        Columns("kind content_sha256 words_sha256 approved_sha256 polarity scope", Fate.NO_TEXT, _MACHINE),
        Columns("approved_by created_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_heuristicembedding": (Columns("kind text_sha256 embedding_model_id", Fate.NO_TEXT, _MACHINE),),
    "memory_evidence": (
        Columns("quote words", Fate.DELETED, "evidence from the run"),
        Columns("client", Fate.NO_TEXT, _NAMES),
        Columns("approved_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_wordorigin": (Columns("client", Fate.NO_TEXT, _NAMES),),
    "memory_review": (
        Columns("reason", Fate.KEPT, _PEOPLE),
        Columns("content_sha256 decision request_id", Fate.NO_TEXT, _MACHINE),
        Columns("reviewer", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_savedfilter": (Columns("name query", Fate.KEPT, "an address in the admin that a person saved"),),
    "memory_heuristicfeedback": (
        Columns("comment", Fate.DELETED, "what was said in the run or about it"),
        Columns("verdict", Fate.NO_TEXT, _MACHINE),
        Columns("client", Fate.NO_TEXT, _NAMES),
    ),
    "memory_usageverdict": (Columns("content_sha256 verdict judge judge_version", Fate.NO_TEXT, _MACHINE),),
    # ── Memory of agents ──────────────────────────────────────────────────────────────────────────────────────────
    "memory_block": (
        Columns("label description", Fate.KEPT, "set by an operator"),
        Columns("policy", Fate.NO_TEXT, _MACHINE),
        Columns("created_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_blockrevision": (
        Columns("value edit reason", Fate.CLEARED, "what the run wrote; the rest of the block stays"),
        Columns("content_sha256 operation status", Fate.NO_TEXT, _MACHINE),
        Columns("created_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_blockreview": (
        Columns("reason", Fate.KEPT, "a person wrote it about an edit"),
        Columns("content_sha256 decision request_id", Fate.NO_TEXT, _MACHINE),
        Columns("reviewer", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_passage": (
        Columns("text tags", Fate.DELETED, "passages of the run"),
        Columns("text_sha256", Fate.NO_TEXT, _MACHINE),
        Columns("created_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_passageembedding": (
        Columns("names", Fate.DELETED, "passages of the run"),
        Columns("embedding_model_id", Fate.NO_TEXT, _MACHINE),
    ),
    # ── Answers ───────────────────────────────────────────────────────────────────────────────────────────────────
    "memory_retrieval": (
        Columns(
            "task task_id subtasks items options record_text",
            Fate.CLEARED,
            "questions with the run's task, reasons that name it, and blocks with words that are deleted",
        ),
        Columns("agent client", Fate.NO_TEXT, _NAMES),
        Columns("mode requested_mode context_sha256 degraded request_id arm", Fate.NO_TEXT, _MACHINE),
        Columns("unit", Fate.NO_TEXT, "what a client names: a session, a task family, an agent; of a task its hash"),
    ),
    "memory_release": (
        Columns("sha256 manifest how", Fate.NO_TEXT, _MACHINE),
        Columns("note", Fate.KEPT, _PEOPLE),
        Columns("created_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_deployment": (Columns("mode unit canary_salt holdout_salt cut_policy", Fate.NO_TEXT, _MACHINE),),
    "memory_deploymentevent": (
        Columns("kind state", Fate.NO_TEXT, _MACHINE),
        Columns("reason", Fate.KEPT, _PEOPLE),
        Columns("made_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_idempotencyrecord": (
        Columns("request body headers", Fate.CLEARED, "requests that made the run, and answers that carried its words"),
        Columns("fingerprint method route request_id", Fate.NO_TEXT, _MACHINE),
        Columns("key client", Fate.NO_TEXT, _NAMES),
    ),
    "memory_embeddingmodel": (Columns("id", Fate.NO_TEXT, _MACHINE),),
    "memory_searchindex": (Columns("name embedding_model_id", Fate.NO_TEXT, _MACHINE),),
    "memory_polarityquota": (
        Columns("task_id", Fate.NO_TEXT, "a task family that an operator named"),
        Columns("set_by", Fate.NO_TEXT, _SIGNED),
    ),
    # ── Work on the inbox ─────────────────────────────────────────────────────────────────────────────────────────
    "memory_comment": (
        Columns("text", Fate.DELETED, "with the lesson, suggestion or call that it is about"),
        Columns("kind", Fate.NO_TEXT, _MACHINE),
        Columns("written_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_itemstate": (
        Columns("kind", Fate.NO_TEXT, _MACHINE),
        Columns("changed_by", Fate.NO_TEXT, _SIGNED),
    ),
    # ── Projects and records ──────────────────────────────────────────────────────────────────────────────────────
    "memory_project": (Columns("slug name mistake_card_policy record_sizes", Fate.NO_TEXT, "set by an operator"),),
    "memory_projectmembership": (Columns("role", Fate.NO_TEXT, _MACHINE),),
    "memory_apikey": (Columns("client prefix secret_sha256 scopes", Fate.NO_TEXT, _NAMES),),
    "memory_memoryimport": (
        Columns("outline", Fate.KEPT, "members of a memory file that are no run, lesson or card"),
        Columns("content_sha256", Fate.NO_TEXT, _MACHINE),
        Columns("imported_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_auditentry": (Columns("kind content previous_sha256 sha256", Fate.NO_TEXT, "ids, labels and hashes"),),
    "memory_erasure": (Columns("erased_by", Fate.NO_TEXT, _SIGNED),),
    "memory_quarantineorder": (
        Columns("reason", Fate.KEPT, "a person wrote it about a source"),
        Columns("source client ordered_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_quarantinelift": (
        Columns("reason", Fate.KEPT, "a person wrote it about a source"),
        Columns("lifted_by", Fate.NO_TEXT, _SIGNED),
    ),
    "memory_rulechange": (
        Columns("kind values status", Fate.NO_TEXT, "settings, accounts and keys"),
        Columns("requested_by decided_by", Fate.NO_TEXT, _SIGNED),
    ),
    # ── Django and the sign-in ────────────────────────────────────────────────────────────────────────────────────
    "django_admin_log": (
        Columns("object_repr change_message", Fate.CLEARED, "entries about the run and its lessons"),
        Columns("object_id", Fate.NO_TEXT, _MACHINE),
    ),
    "django_session": (
        Columns("session_data", Fate.KEPT, "messages a page has not shown yet; ends after ERL_SESSION_HOURS"),
        Columns("session_key", Fate.NO_TEXT, _MACHINE),
    ),
    "django_content_type": (Columns("app_label model", Fate.NO_TEXT, _MACHINE),),
    "django_migrations": (Columns("app name", Fate.NO_TEXT, _MACHINE),),
    "auth_user": (Columns("password username first_name last_name email", Fate.NO_TEXT, "accounts"),),
    "auth_group": (Columns("name", Fate.NO_TEXT, "accounts"),),
    "auth_permission": (Columns("name codename", Fate.NO_TEXT, _MACHINE),),
    "axes_accessattempt": (
        Columns("user_agent username http_accept path_info get_data post_data", Fate.NO_TEXT, "failed sign-ins"),
    ),
    "axes_accessfailurelog": (Columns("user_agent username http_accept path_info", Fate.NO_TEXT, "failed sign-ins"),),
    "axes_accesslog": (Columns("user_agent username http_accept path_info session_hash", Fate.NO_TEXT, "unused"),),
    "otp_static_staticdevice": (Columns("name", Fate.NO_TEXT, "accounts"),),
    "otp_static_statictoken": (Columns("token", Fate.NO_TEXT, "accounts"),),
    "otp_totp_totpdevice": (Columns("name key", Fate.NO_TEXT, "accounts"),),
}


def add_text_columns(register: Mapping[str, Sequence[Columns]]) -> None:
    """Add the columns of another app's tables."""
    _REGISTER.update({table: tuple(columns) for table, columns in register.items()})


def read_fates() -> dict[tuple[str, str], Fate]:
    """Return what an erasure does with each column, by table and column."""
    return {
        (table, name): columns.fate
        for table, registered in _REGISTER.items()
        for columns in registered
        for name in columns.names.split()
    }


def find_tables_of_runs() -> list[str]:
    """Return the tables that can hold text of a run."""
    return sorted({table for (table, _), fate in read_fates().items() if fate != Fate.NO_TEXT})
