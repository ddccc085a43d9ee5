"""Logs: one JSON object a line on standard error, each carrying the request id of what caused it."""

import logging
import re
from typing import Any

import structlog

from memory.redaction import redact
from memory.redaction.members import VALUE_MEMBERS

_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
]
# Without the frames' variables: they hold prompts, trajectories and keys.
_TRACEBACKS = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))
_MAX_REMEMBERED, _MOST_REMEMBERED = 100, 1000  # characters of a member; members
_clean: set[tuple[str, type, int | str]] = set()  # searched before, and nothing was found
# Different on every line, so not worth remembering.
_OURS = {
    "request_id": re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    "time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"),
}
_JSON_TYPES = (str, int, float, bool, type(None), dict, list, tuple)


def _is_known_clean(key: str, value: Any) -> bool:
    """Tell, without a search, whether a member is known to hold nothing secret; most members repeat."""
    if isinstance(value, float | bool | None):
        return True
    if key in _OURS and isinstance(value, str) and _OURS[key].fullmatch(value):
        return True
    if not isinstance(value, int | str) or len(str(value)) > _MAX_REMEMBERED:
        return False
    member = (key, type(value), value)
    if member not in _clean:
        if redact({key: value}).counts:
            return False
        if len(_clean) >= _MOST_REMEMBERED:
            _clean.clear()
        _clean.add(member)
    return True


def redact_event(logger: Any, name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Take secrets and personal data out of an event, library logs and tracebacks included."""
    plain = {key: value if isinstance(value, _JSON_TYPES) else str(value) for key, value in event.items()}
    if all(_is_known_clean(key, value) for key, value in plain.items()) and VALUE_MEMBERS.isdisjoint(plain):
        return plain
    redacted: dict[str, Any] = redact(plain).value
    return redacted


def logging_config(*, level: str) -> dict[str, Any]:
    """Return Django's LOGGING and set structlog up, so that our events and library logs have one shape."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    logging.captureWarnings(True)  # otherwise they would be the only lines that are not JSON
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "json": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": [
                    structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                    _TRACEBACKS,
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
            "django.request": {"level": "ERROR"},  # request_finished says the rest
            "django.server": {"handlers": [], "level": level, "propagate": True},
            "axes": {"level": "ERROR"},  # sign_in_locked says what happened
            "environ": {"level": "WARNING"},  # a missing .env is normal
            "httpx": {"level": "WARNING"},
            "httpcore": {"level": "WARNING"},
        },
    }
