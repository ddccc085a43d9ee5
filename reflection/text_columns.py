"""What an erasure does with the text in the tables of this app (memory/trust/text_columns.py)."""

from memory.trust.text_columns import Columns, Fate

_MACHINE = "written by ERL: codes, names, hashes, numbers"

TEXT_COLUMNS = {
    "reflection_job": (
        Columns("kind subject status lease_owner last_error_code model request_id traceparent", Fate.NO_TEXT, _MACHINE),
        Columns("last_error", Fate.NO_TEXT, "sentences of ERL for the operator; they quote nothing"),
        Columns("requested_by", Fate.NO_TEXT, "labels of accounts, keys and policies"),
    ),
    "reflection_reflection": (
        Columns("reflector reflector_version prompt_version skip_reason", Fate.NO_TEXT, _MACHINE),
    ),
    "reflection_proposal": (
        Columns("findings", Fate.DELETED, "proposals of the run's reflections"),
        Columns("effect pattern", Fate.NO_TEXT, _MACHINE),
    ),
    "reflection_runpatterns": (
        Columns("task_id", Fate.DELETED, "with the run"),
        Columns("ended keys reflector_version", Fate.NO_TEXT, _MACHINE),
    ),
    "reflection_modelcall": (
        Columns(
            "response tool_calls received",
            Fate.DELETED,
            "answers in reflections of the run, and in consolidations that read it",
        ),
        Columns("subject step prompt_sha256 provider model finish_reason", Fate.NO_TEXT, _MACHINE),
    ),
    "reflection_consolidationrun": (
        Columns("cause stages_done method version prompt_version fallback", Fate.NO_TEXT, _MACHINE),
    ),
    "reflection_suggestion": (
        Columns("text reason findings decision_reason", Fate.DELETED, "suggestions that rest on the run"),
        Columns(
            "kind status content_sha256 other_sha256 method model prompt_version fingerprint", Fate.NO_TEXT, _MACHINE
        ),
        Columns("decided_by", Fate.NO_TEXT, "labels of accounts, keys and policies"),
    ),
    "reflection_suggestionevidence": (Columns("quote", Fate.DELETED, "quotations from the run"),),
    "reflection_providerstate": (Columns("provider state last_error_code", Fate.NO_TEXT, _MACHINE),),
    "reflection_periodicrun": (Columns("name", Fate.NO_TEXT, _MACHINE),),
    "reflection_webhookendpoint": (
        Columns("url desk_url events style", Fate.NO_TEXT, "set by an operator"),
        Columns("disabled_reason", Fate.NO_TEXT, "sentences of ERL for the operator; they quote nothing"),
        Columns("created_by", Fate.NO_TEXT, "labels of accounts, keys and policies"),
    ),
    "reflection_webhooksecret": (
        Columns("salt fingerprint", Fate.NO_TEXT, _MACHINE),
        Columns("created_by", Fate.NO_TEXT, "labels of accounts, keys and policies"),
    ),
    "reflection_webhookdelivery": (Columns("event_kind details", Fate.NO_TEXT, _MACHINE),),
    "reflection_workerheartbeat": (Columns("name", Fate.NO_TEXT, _MACHINE),),
}
