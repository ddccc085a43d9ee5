"""What an erasure does with the text in the tables of this app (memory/trust/text_columns.py)."""

from memory.trust.text_columns import Columns, Fate

_MACHINE = "written by ERL: codes, names, hashes, numbers"
_WITH_RUN = "with the run's own rows, which the erasure of its trajectory deletes"
_DEFINED = "what people define: agents, their instructions and rules"
_BY = "labels of accounts, keys and policies"

TEXT_COLUMNS = {
    "agents_tool": (
        Columns("name", Fate.NO_TEXT, "a name that a client or a person chose"),
        Columns("created_by", Fate.NO_TEXT, _BY),
    ),
    "agents_toolrevision": (
        Columns(
            "description source parameters uses examples limits request",
            Fate.KEPT,
            "code that a person wrote or approved",
        ),
        Columns("kind runtime sha256 status", Fate.NO_TEXT, _MACHINE),
        Columns("created_by decided_by", Fate.NO_TEXT, _BY),
    ),
    "agents_agent": (
        Columns("name description", Fate.KEPT, _DEFINED),
        Columns("sleep_said", Fate.KEPT, "how many candidates of a model could not be used, and why"),
        Columns("changes_by", Fate.NO_TEXT, _MACHINE),
        Columns("created_by", Fate.NO_TEXT, _BY),
    ),
    "agents_change": (
        Columns("reason evidence decision", Fate.KEPT, "why people, agents and ERL propose a change"),
        Columns("kinds source rung retrieval", Fate.NO_TEXT, _MACHINE),
        Columns("created_by decided_by", Fate.NO_TEXT, _BY),
    ),
    "agents_check": (
        Columns("said figures", Fate.KEPT, "what a check found, with arguments of recorded calls"),
        Columns("name verdict", Fate.NO_TEXT, _MACHINE),
        Columns("made_by", Fate.NO_TEXT, _BY),
    ),
    "agents_shadowrun": (
        Columns("calls", Fate.DELETED, _WITH_RUN),
        Columns("family", Fate.NO_TEXT, _MACHINE),
        Columns("made_by", Fate.NO_TEXT, _BY),
    ),
    "agents_agentrevision": (
        Columns("system blocks tools rules", Fate.KEPT, _DEFINED),
        Columns("model model_settings limits compaction sha256", Fate.NO_TEXT, _MACHINE),
        Columns("created_by", Fate.NO_TEXT, _BY),
    ),
    "agents_conversation": (Columns("created_by rewound_by", Fate.NO_TEXT, _BY),),
    "agents_message": (
        Columns("content tool_calls received attachments", Fate.DELETED, _WITH_RUN),
        Columns("role tool_call_id", Fate.NO_TEXT, _MACHINE),
        Columns("created_by", Fate.NO_TEXT, _BY),
    ),
    "agents_compaction": (
        Columns("summary", Fate.DELETED, "summaries of the run's conversation"),
        Columns("method prompt_version", Fate.NO_TEXT, _MACHINE),
    ),
    "agents_run": (
        Columns("task head error tools", Fate.DELETED, _WITH_RUN),
        Columns("status stop_reason task_id arm client request_id", Fate.NO_TEXT, _MACHINE),
        Columns("created_by", Fate.NO_TEXT, _BY),
    ),
    "agents_step": (
        Columns("head", Fate.DELETED, _WITH_RUN),
        Columns("status prompt_sha256 request_sha256 model finish_reason", Fate.NO_TEXT, _MACHINE),
    ),
    "agents_effect": (
        Columns("arguments result error", Fate.DELETED, _WITH_RUN),
        Columns("tool call_id arguments_sha256 kind status", Fate.NO_TEXT, _MACHINE),
    ),
    "agents_approval": (
        Columns("reason", Fate.DELETED, _WITH_RUN),
        Columns("arguments_sha256 status", Fate.NO_TEXT, _MACHINE),
        Columns("decided_by", Fate.NO_TEXT, _BY),
    ),
    "agents_event": (
        Columns("payload", Fate.DELETED, _WITH_RUN),
        Columns("kind", Fate.NO_TEXT, _MACHINE),
    ),
}
