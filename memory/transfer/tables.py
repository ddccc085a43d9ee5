"""What an export of a project holds: which tables, in which order they are read back, and what stays where it is.

The names are those of the database. A table that is in neither list fails a test, so a new one cannot be forgotten.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.apps import apps
from django.contrib.postgres.search import SearchVectorField
from django.db import connection, models

from memory.limits import MAX_BLOCK_CHARS

# Each family with those that its rows cannot do without
FAMILIES: dict[str, tuple[str, ...]] = {
    "settings": (),
    "runs": (),
    "lessons": ("runs",),
    "answers": ("lessons",),
    "releases": ("lessons",),
    "experiments": ("releases",),
    "memory": (),
    "agents": ("answers", "releases"),
    "evaluations": (),
}
LESSON_ITEMS = ("lesson", "second", "card", "harmful", "suggestion")
AGENT_ITEMS = ("call", "change", "tool")


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table of an export, whose file is named after it.

    `rows` is the condition on rows that are exported, of a row `{t}`. `kinds` says which kinds of rows each family has,
    where a table is of several. `until` are values that columns have until an `Update` sets them to those of the file,
    of a row `r`: what a trigger of the database allows only later. `redacted` are the columns of words from which
    secrets are removed before they are written.
    """

    name: str
    families: tuple[str, ...]
    rows: str = ""
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    until: Mapping[str, str] = field(default_factory=dict)
    redacted: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        return f"{self.name}.jsonl"


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """Columns that get the values of the file now. `where` narrows it to some rows `r`.

    `erases` repeats an erasure, which alone may leave a text that its hash is not of. `family` is the one without
    which the columns stay as the triggers made them.
    """

    name: str
    columns: tuple[str, ...]
    where: str = "true"
    erases: bool = False
    family: str = ""


# What goes to webhooks stays with them, and an import with the installation that it came into.
_ENDED_JOB = "{t}.status IN ('done', 'dead') AND {t}.endpoint_id IS NULL AND {t}.kind <> 'import'"
_ENDED_RUN = "{t}.status NOT IN ('queued', 'running', 'waiting')"
_OF_ENDED_RUN = (
    "({t}.run_id IS NULL OR EXISTS (SELECT FROM agents_run e WHERE e.id = {t}.run_id "
    "AND e.status NOT IN ('queued', 'running', 'waiting')))"
)

# In the order in which they are read back. Foreign keys are checked at the end; the order is that of the triggers.
STEPS: tuple[Table | Update, ...] = (
    Table(name="memory_polarityquota", families=("settings",)),
    # Runs and verdicts look for the answer they name.
    Table(name="memory_retrieval", families=("answers",), redacted=("task",)),
    Table(name="memory_systemprompt", families=("runs",), redacted=("text",)),
    Table(
        name="memory_trajectory",
        families=("runs",),
        redacted=("task", "steps", "summary", "mistakes", "successes", "mistake_cards", "tools", "metadata"),
    ),
    Table(name="reflection_runpatterns", families=("runs",)),
    Table(name="memory_memoryimport", families=("runs",)),
    Table(name="memory_erasure", families=("runs",)),
    # Whether a project serves releases decides which wordings are live; where words come from is written once.
    Table(name="memory_deployment", families=("releases",)),
    Table(name="memory_wordorigin", families=("lessons",)),
    Table(name="memory_heuristic", families=("lessons",)),
    Table(
        name="memory_heuristicrevision",
        families=("lessons",),
        redacted=("trigger", "guideline", "avoid", "not_when", "rationale", "source_task"),
    ),
    Table(name="memory_evidence", families=("lessons",), redacted=("quote",)),
    Table(name="memory_usageverdict", families=("answers",)),
    Table(name="memory_release", families=("releases",)),
    Table(name="memory_releasemember", families=("releases",)),
    Table(name="memory_deploymentevent", families=("releases",)),
    Table(name="evaluation_experiment", families=("experiments",)),
    Table(name="evaluation_look", families=("experiments",)),
    Table(name="reflection_job", families=("lessons",), rows=_ENDED_JOB),
    Table(name="reflection_modelcall", families=("lessons",)),
    Table(name="reflection_proposal", families=("lessons",)),
    Table(name="reflection_suggestion", families=("lessons",)),
    Table(name="reflection_suggestionevidence", families=("lessons",)),
    Table(name="evaluation_evaluationrun", families=("evaluations",), rows="{t}.status NOT IN ('queued', 'running')"),
    # Earlier revisions may be longer than a block allows now.
    Table(name="memory_block", families=("memory",), until={"current_id": "NULL", "char_limit": str(MAX_BLOCK_CHARS)}),
    Table(
        name="memory_blockrevision",
        families=("memory",),
        until={
            "status": "CASE WHEN r.status IN ('applied', 'overlay') THEN r.status ELSE 'proposed' END",
            "erased_at": "NULL",
        },
        redacted=("value",),
    ),
    # What was erased keeps the hash that its reviews name.
    Update(
        name="memory_blockrevision",
        columns=("content_sha256", "erased_at"),
        where="r.erased_at IS NOT NULL AND r.value = ''",
        erases=True,
    ),
    Table(
        name="memory_passage", families=("memory",), until={"quarantine_order_id": "NULL"}, redacted=("text", "tags")
    ),
    Table(name="agents_tool", families=("agents",), until={"current_id": "NULL"}),
    Table(name="agents_toolrevision", families=("agents",), until={"status": "'proposed'"}),
    Table(name="agents_agent", families=("agents",), until={"current_id": "NULL"}),
    Table(name="agents_agentrevision", families=("agents",)),
    # A decision is on a revision that waits; with it, the revision and then its subject get their state.
    Table(
        name="memory_review",
        families=("lessons", "memory", "agents"),
        kinds={"lessons": ("lesson", "mistake"), "memory": ("block",), "agents": ("tool", "agent")},
    ),
    Update(name="memory_blockrevision", columns=("status",)),
    Update(name="memory_block", columns=("current_id", "char_limit")),
    Update(name="agents_toolrevision", columns=("status",)),
    Update(name="agents_tool", columns=("current_id",)),
    Update(name="agents_agent", columns=("current_id",)),
    Table(name="agents_conversation", families=("agents",)),
    Table(name="agents_change", families=("agents",)),
    Table(name="agents_run", families=("agents",), rows=_ENDED_RUN),
    Table(name="agents_compaction", families=("agents",)),
    Table(name="agents_step", families=("agents",)),
    Table(name="agents_effect", families=("agents",)),
    Table(name="agents_approval", families=("agents",)),
    Table(name="agents_message", families=("agents",), rows=_OF_ENDED_RUN),
    Table(name="agents_event", families=("agents",)),
    Table(name="agents_evaluationrow", families=("agents",)),
    Table(
        name="memory_comment",
        families=("lessons", "memory", "agents"),
        kinds={"lessons": LESSON_ITEMS, "memory": ("block",), "agents": AGENT_ITEMS},
    ),
    Table(
        name="memory_itemstate",
        families=("lessons", "memory", "agents"),
        kinds={"lessons": LESSON_ITEMS, "memory": ("block",), "agents": AGENT_ITEMS},
    ),
    # After all that they cover, which may not come into a project under an order
    Table(name="memory_quarantineorder", families=("lessons", "memory")),
    Table(name="memory_quarantinelift", families=("lessons", "memory")),
    Update(name="memory_heuristicrevision", columns=("live",), family="releases"),
    Update(name="memory_passage", columns=("quarantine_order_id",)),
)
TABLES: dict[str, Table] = {step.name: step for step in STEPS if isinstance(step, Table)}

_ACCOUNTS = "accounts, and how they sign in, belong to an installation"
_SEARCH = "made from lessons, passages and runs, again in the other installation"
_SECRETS = "secrets, and addresses that hold some"
LEFT_OUT: dict[str, str] = {
    "memory_project": "in the manifest",
    "memory_apikey": _SECRETS,
    "reflection_webhookendpoint": _SECRETS,
    "reflection_webhooksecret": _SECRETS,
    "memory_projectmembership": _ACCOUNTS,
    "memory_rulechange": _ACCOUNTS,
    "memory_savedfilter": _ACCOUNTS,
    "memory_auditentry": "the chain of one installation; the import writes entries into that of the other",
    "memory_idempotencyrecord": "answers to requests that were sent to this installation",
    "memory_embeddingmodel": _SEARCH,
    "memory_heuristicembedding": _SEARCH,
    "memory_passageembedding": _SEARCH,
    "memory_taskvector": _SEARCH,
    "memory_searchstatistics": _SEARCH,
    "memory_termcount": _SEARCH,
    "memory_termchange": _SEARCH,
    "memory_servedchange": _SEARCH,
    "reflection_dailyspend": "what this installation spent; the calls are exported",
    "reflection_reservation": "of calls under way",
    "reflection_providerstate": "of this installation",
    "reflection_workerheartbeat": "of this installation",
    "django_admin_log": _ACCOUNTS,
    "django_content_type": "of this installation",
    "django_session": _ACCOUNTS,
    "auth_permission": _ACCOUNTS,
    "auth_group": _ACCOUNTS,
    "auth_group_permissions": _ACCOUNTS,
    "auth_user": _ACCOUNTS,
    "auth_user_groups": _ACCOUNTS,
    "auth_user_user_permissions": _ACCOUNTS,
    "axes_accessattempt": _ACCOUNTS,
    "axes_accessattemptexpiration": _ACCOUNTS,
    "axes_accessfailurelog": _ACCOUNTS,
    "axes_accesslog": _ACCOUNTS,
    "otp_static_staticdevice": _SECRETS,
    "otp_static_statictoken": _SECRETS,
    "otp_totp_totpdevice": _SECRETS,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of an export. `refers_to` is the table that it is a foreign key of, "" if it is none.

    A key that the database counts differs between installations. A reference to one is written as a list of what else
    names its row: `names`.
    """

    name: str
    type: str
    refers_to: str = ""
    names: tuple["Column", ...] = ()
    may_be_empty: bool = True
    goes_along: bool = False  # a row is deleted with what it refers to
    is_label: bool = False


@cache
def find_model(name: str) -> type[models.Model]:
    """Return the model that a table is of, not one of its proxies."""
    return next(m for m in apps.get_models() if m._meta.db_table == name and not m._meta.proxy)


@cache
def find_columns(name: str) -> tuple[Column, ...]:
    """Return the columns of a table that are exported, in their order."""
    return tuple(_find_columns(find_model(name)))


@cache
def find_key(name: str) -> tuple[Column, ...]:
    """Return what names a row of a table in every installation: its key or, where that is counted, what else does."""
    meta = find_model(name)._meta
    if isinstance(meta.pk, models.AutoField | models.BigAutoField):
        unique = next(c for c in meta.constraints if isinstance(c, models.UniqueConstraint) and c.condition is None)
        columns = [str(meta.get_field(field).column) for field in unique.fields]  # type: ignore[union-attr]
    else:
        columns = [str(field.column) for field in meta.pk_fields]
    return tuple(column for column in find_columns(name) if column.name in columns)


def close_families(wanted: Iterable[str]) -> set[str]:
    """Return families with those that they cannot do without."""
    closed: set[str] = set()
    open_ones = list(wanted)
    while open_ones:
        family = open_ones.pop()
        if family not in closed:
            closed.add(family)
            open_ones.extend(FAMILIES[family])
    return closed


def find_kinds(table: Table, families: Iterable[str]) -> list[str]:
    """Return the kinds of rows that families have in a table of several."""
    return sorted({kind for family in families for kind in table.kinds.get(family, ())})


def _find_columns(model: type[models.Model]) -> Iterator[Column]:
    for model_field in model._meta.local_concrete_fields:
        counted = model_field.primary_key and isinstance(model_field, models.AutoField | models.BigAutoField)
        if counted or isinstance(model_field, SearchVectorField | models.CompositePrimaryKey):
            continue
        name = str(model_field.column)
        refers_to = ""
        names: tuple[Column, ...] = ()
        goes_along = False
        if isinstance(model_field, models.ForeignKey):
            referred: Any = model_field.related_model
            refers_to = referred._meta.db_table
            if refers_to not in TABLES:
                continue  # the project, accounts, API keys
            goes_along = model_field.remote_field.on_delete is models.CASCADE
            names = find_key(refers_to) if isinstance(referred._meta.pk, models.BigAutoField) else ()
        elif name == "project_id":
            continue
        yield Column(
            name=name,
            type=str(model_field.db_type(connection)),
            refers_to=refers_to,
            names=names,
            may_be_empty=model_field.null,
            goes_along=goes_along or not model_field.null,
            is_label=not model_field.choices and (name.endswith("_by") or name == "reviewer"),
        )
