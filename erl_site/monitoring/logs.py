"""Logging: one JSON object per line on standard error, with the id of the request that caused it."""

import logging
import re
from typing import Any

import structlog

from memory.redaction import redact
from memory.redaction.values import VALUE_MEMBERS

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
]
# Without local variables, which hold prompts, trajectories and keys
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
MAX_CHARACTERS = 2_000  # of one string in a line; cut before it is redacted, since what clients send ends up here
_LONGEST_WORD = 200  # a cut inside a shorter one leaves it out, since half a secret is not recognised
_MAX_CACHED_CHARACTERS, _MAX_CACHED_MEMBERS = 100, 1000
_clean: set[tuple[str, type, int | str]] = set()  # cache of members without secrets
# Harmless, but different on every line, so not worth caching
_GENERATED = {
    "request_id": re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"),
}
_QUOTED_ROW = re.compile(r"\n(?:DETAIL|CONTEXT|QUERY|LINE \d+): ")
_JSON_TYPES = (str, int, float, bool, type(None), dict, list, tuple)


def _is_known_clean(key: str, value: Any) -> bool:
    """Return whether a member holds no secret. Cached, since most members repeat."""
    if isinstance(value, float | bool | None):
        return True
    if key in _GENERATED and isinstance(value, str) and _GENERATED[key].fullmatch(value):
        return True
    if not isinstance(value, int | str) or len(str(value)) > _MAX_CACHED_CHARACTERS:
        return False
    member = (key, type(value), value)
    if member not in _clean:
        if redact({key: value}).counts:
            return False
        if len(_clean) >= _MAX_CACHED_MEMBERS:
            _clean.clear()
        _clean.add(member)
    return True


def drop_rows(logger: Any, name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Keep of a database error what it is, without the row or statement that PostgreSQL quotes below it."""
    for error in event.get("exception") or ():
        if isinstance(error, dict):
            error["exc_value"] = _QUOTED_ROW.split(error.get("exc_value") or "", maxsplit=1)[0]
    return event


def cut(value: Any) -> Any:
    """Cut all strings in a value to `MAX_CHARACTERS`."""
    if isinstance(value, str) and len(value) > MAX_CHARACTERS:
        blank = value.rfind(" ", MAX_CHARACTERS - _LONGEST_WORD, MAX_CHARACTERS)
        return f"{value[: blank if blank >= 0 else MAX_CHARACTERS]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        return {cut(key): cut(item) for key, item in value.items()}
    return [cut(item) for item in value] if isinstance(value, list | tuple) else value


def redact_event(logger: Any, name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Cut long strings, then redact secrets and personal data, also in tracebacks and events of libraries."""
    plain = {key: cut(value if isinstance(value, _JSON_TYPES) else str(value)) for key, value in event.items()}
    if all(_is_known_clean(key, value) for key, value in plain.items()) and VALUE_MEMBERS.isdisjoint(plain):
        return plain
    redacted: dict[str, Any] = redact(plain).value
    return redacted


def logging_config(*, level: str) -> dict[str, Any]:
    """Configure structlog and return Django's LOGGING, so that all log lines have the same format."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.captureWarnings(True)  # as JSON, like all other lines
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    _TRACEBACKS,
                    drop_rows,
                    redact_event,
                    structlog.processors.JSONRenderer(),
                ],
                "foreign_pre_chain": _SHARED,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.request": {"level": "ERROR"},  # request_finished covers the rest
            "django.server": {"handlers": [], "level": level, "propagate": True},
            "axes": {"level": "ERROR"},  # sign_in_locked covers it
            "environ": {"level": "WARNING"},  # a missing .env is normal
            "httpx": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
            "httpcore": {"level": "WARNING"},
        },
    }
