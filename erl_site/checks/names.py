"""Check that every ERL_ name in the environment is a setting: what is ignored in silence was meant to do something."""

import os
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Warning, register

_FIXED = "Remove it: no two deployments need this to differ."
_RETENTION = "Set ERL_RETENTION_DAYS, which applies to answers. Events are kept with their run."
_EMBEDDER = "Write ERL_EMBEDDER=https://host/v1?model=name&dimensions=1024."
_RERANKER = "Add it to the address: ERL_RERANK_URL=https://host/rerank?model=name&format=tei."
_TESTS = "Remove it: it was for tests only."
# Settings of earlier versions, and what to do instead
FORMER = {
    "ERL_API_HOST": "Write ERL_LISTEN=host:port.",
    "ERL_API_PORT": "Write ERL_LISTEN=host:port.",
    "ERL_API_MAX_WAIT_SECONDS": _FIXED,
    "ERL_DATABASE_CONN_MAX_AGE": "Add ?conn_max_age=600 to DATABASE_URL.",
    "ERL_IDEMPOTENCY_HOURS": _FIXED,
    "ERL_ANSWER_RETENTION_DAYS": _RETENTION,
    "ERL_EVENT_RETENTION_DAYS": _RETENTION,
    "ERL_EMBEDDER_BASE_URL": _EMBEDDER,
    "ERL_EMBEDDER_MODEL": _EMBEDDER,
    "ERL_EMBEDDER_DIMENSIONS": _EMBEDDER,
    "ERL_RERANK_MODEL": _RERANKER,
    "ERL_RERANK_FORMAT": _RERANKER,
    "ERL_REFLECTION_LEASE_SECONDS": _FIXED,
    "ERL_REFLECTION_MAX_ATTEMPTS": _FIXED,
    "ERL_EMBEDDED_DURABLE": _TESTS,
    "ERL_FAILPOINTS": _TESTS,
}
# Read by others: compose.yaml, erl-client, and the agents that evaluations start
ELSEWHERE = frozenset(
    {
        *("ERL_PYTHON_IMAGE", "ERL_DATABASE_IMAGE", "ERL_BROKER_IMAGE", "ERL_POOLER_IMAGE", "ERL_PROXY_IMAGE"),
        *("ERL_DATABASE_MEMORY", "ERL_POOL_SIZE", "ERL_WEB_PROCESSES", "ERL_WORKER_PROCESSES", "ERL_PASSWORD"),
        *("ERL_URL", "ERL_API_KEY", "ERL_SPOOL", "ERL_LESSONS", "ERL_LESSONS_FILE"),
        *("ERL_GOAL", "ERL_ITERATION", "ERL_BUDGET_SECONDS"),
    }
)


@register("names")
def check_names(**kwargs: Any) -> list[CheckMessage]:
    """Report names that no setting has."""
    given = sorted(name for name in os.environ if name.startswith("ERL_"))
    return [
        Warning(f"{name} is set, and no setting has this name.", hint=_advise(name), id="erl.names.W001")
        for name in given
        if name not in settings.ERL_NAMES and name not in ELSEWHERE
    ]


def _advise(name: str) -> str:
    if name in FORMER:
        return FORMER[name]
    similar = get_close_matches(name, settings.ERL_NAMES, n=1)
    return (
        f"Is {similar[0]} meant? docs/configuration.md lists all settings."
        if similar
        else ("Remove it, or find its name in docs/configuration.md.")
    )
