"""Check the settings of the database, the broker, the embedder and the reranker, and for production use."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register

from erl_site.embedded.accounts import find_binaries
from erl_site.embedded.home import EmbeddedServerError
from erl_site.embedded.valkey import find_server
from memory.egress import find_url_fault, split_options
from memory.embeddings.registry import CHOICES, is_service
from memory.retrieval.cross_encoder import FORMATS

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where Linux has the semaphores of Celery
DATABASE_SCHEMES = frozenset({"postgres", "postgresql", "pgsql", "psql"})
MAX_DIMENSIONS = 4_000  # the most a halfvec index supports
VERIFIED = frozenset({"verify-ca", "verify-full"})  # modes of libpq in which the server's certificate is checked
UNENCRYPTED_BROKERS = frozenset({"redis", "sentinel"})
OWN_PATHS = frozenset({"admin", "api", "health", "mcp", "otlp", "ready", "static", "waiting"})
BROKER_SCHEMES = frozenset({"redis", "rediss", "unix", "redis+socket", "sentinel"})


@register("services")
def check_services(**kwargs: Any) -> list[CheckMessage]:
    """Report unusable addresses and embedded servers that are not installed."""
    return [
        *_check_listen(),
        *_check_path_prefix(),
        *_check_database(),
        *_check_broker(),
        *_check_proxy(),
        *_check_reranker(),
        *_check_embedder(),
        *_check_tool_secrets(),
        *_check_pages(),
        *_check_shared_memory(),
    ]


def _check_listen() -> Iterator[CheckMessage]:
    # From the right, since an IPv6 address has colons of its own.
    host, _, port = settings.ERL_LISTEN.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        yield Error(
            f"ERL_LISTEN is {settings.ERL_LISTEN!r}.",
            hint="Write host:port, such as 127.0.0.1:8000, 0.0.0.0:8000 or [::1]:8000.",
            id="erl.services.E010",
        )


def _check_path_prefix() -> Iterator[CheckMessage]:
    prefix = settings.ERL_PATH_PREFIX
    # A proxy may remove the prefix, and then ERL's own paths must be told from those that still have it.
    is_ours = prefix[1:].partition("/")[0] in OWN_PATHS
    if is_ours or not re.fullmatch(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*", prefix):
        yield Error(
            f"ERL_PATH_PREFIX is {prefix!r}{', a path of ERL itself' if is_ours else ''}.",
            hint="Write a path such as /erl, of letters, digits and . _ ~ - in each part, or leave it empty.",
            id="erl.services.E011",
        )


def _check_database() -> Iterator[CheckMessage]:
    if settings.DATABASE_URL:
        scheme = urlsplit(settings.DATABASE_URL).scheme
        if scheme not in DATABASE_SCHEMES:
            yield Error(
                f"DATABASE_URL has the scheme {scheme!r}; ERL needs PostgreSQL with pgvector.",
                hint="Set it to postgresql://user:password@host:5432/name, or leave it empty for the embedded server.",
                id="erl.services.E001",
            )
        owner_url = settings.DATABASE_OWNER_URL
        if owner_url and urlsplit(owner_url).path != urlsplit(settings.DATABASE_URL).path:
            yield Error(
                "DATABASE_URL and DATABASE_OWNER_URL name different databases.",
                hint="Name the same database in both: the second is for another role.",
                id="erl.services.E013",
            )
    else:
        yield from _check_programs(find_binaries, id="erl.services.E002")


def _check_broker() -> Iterator[CheckMessage]:
    if not settings.ERL_EMBEDDED_BROKER:
        scheme = urlsplit(settings.CELERY_BROKER_URL).scheme
        if scheme not in BROKER_SCHEMES:
            yield Error(
                f"CELERY_BROKER_URL has the scheme {scheme!r}; ERL needs Redis or Valkey.",
                hint="Set it to redis://host:6379/0, or leave it empty for the embedded server.",
                id="erl.services.E003",
            )
    else:
        yield from _check_programs(find_server, id="erl.services.E004")


def _check_programs(find: Callable[[], Path], *, id: str) -> Iterator[CheckMessage]:
    try:
        find()
    except EmbeddedServerError as error:
        yield Error(str(error), id=id)


def _check_proxy() -> Iterator[CheckMessage]:
    if not settings.ERL_HTTP_PROXY:
        return
    try:
        parts = urlsplit(settings.ERL_HTTP_PROXY)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not None
        is_usable = is_usable and parts.path in ("", "/") and not parts.query
    except ValueError:  # of the port
        is_usable = False
    if not is_usable:
        yield Error(
            "ERL_HTTP_PROXY is not the address of a proxy.",
            hint="Write http://host:3128, or http://user:password@host:3128.",
            id="erl.services.E012",
        )


def _check_reranker() -> Iterator[CheckMessage]:
    if not settings.ERL_RERANK_URL:
        return
    url, options = split_options(settings.ERL_RERANK_URL, "model", "format")
    fault = find_url_fault(url)
    if not fault and options.get("format", FORMATS[0]) not in FORMATS:
        fault = f"Its format is {options['format']!r}; there are {' and '.join(FORMATS)}."
    if fault:
        yield Error(
            f"ERL_RERANK_URL cannot be used. {fault}",
            hint="Set it to the endpoint's URL, or leave it empty to rank without a cross-encoder.",
            id="erl.services.E008",
        )


def _check_embedder() -> Iterator[CheckMessage]:
    embedder = settings.ERL_EMBEDDER
    if embedder in CHOICES:
        return
    example = "https://host/v1?model=name&dimensions=1024"
    if not is_service(embedder):
        yield Error(
            f"ERL_EMBEDDER is {embedder!r}.",
            hint=f"Set it to one of {', '.join(CHOICES)}, or to the URL of a service: {example}.",
            id="erl.services.E005",
        )
        return
    base_url, options = split_options(embedder, "model", "dimensions")
    if fault := find_url_fault(base_url):
        yield Error(
            f"The URL in ERL_EMBEDDER cannot be used. {fault}",
            hint="Set it to the service's base URL up to and including /v1.",
            id="erl.services.E006",
        )
    dimensions = options.get("dimensions", "")
    if not options.get("model") or not dimensions.isdecimal() or not 1 <= int(dimensions) <= MAX_DIMENSIONS:
        yield Error(
            "The URL in ERL_EMBEDDER does not name the model and its dimensions.",
            hint=f"Write them like {example}; dimensions are from 1 to {MAX_DIMENSIONS:,}.",
            id="erl.services.E007",
        )


def _check_tool_secrets() -> Iterator[CheckMessage]:
    secrets = settings.ERL_TOOL_SECRETS
    usable = isinstance(secrets, dict) and all(
        isinstance(secret, dict)
        and secret.keys() == {"host", "value"}
        and all(isinstance(text, str) for text in secret.values())
        for secret in secrets.values()
    )
    if not usable:
        yield Error(
            "ERL_TOOL_SECRETS is not an object of keys with a host and a value each.",
            hint='Write {"shop": {"host": "api.shop.example", "value": "Bearer ..."}}.',
            id="erl.services.E009",
        )


def _check_pages() -> Iterator[CheckMessage]:
    folder = settings.BASE_DIR / "templates"
    if not all((folder / name).is_dir() for name in ("admin", "static")):
        yield Error(
            f"{folder} is missing or not complete, so the admin has no pages.",
            hint="Copy or install ERL again, with this folder.",
            id="erl.services.E014",
        )


def _check_shared_memory() -> Iterator[CheckMessage]:
    if sys.platform == "linux" and not os.access(SHARED_MEMORY, os.W_OK):
        yield Warning(
            f"{SHARED_MEMORY} is missing or cannot be written, so no worker with several processes starts.",
            hint=f"Mount a tmpfs there: mount -t tmpfs -o mode=1777 tmpfs {SHARED_MEMORY}.",
            id="erl.services.W001",
        )


@register(Tags.security, deploy=True)
def check_deployment(**kwargs: Any) -> list[CheckMessage]:
    """Report settings that are fine on a laptop but not in production."""
    messages: list[CheckMessage] = []
    if not settings.DATABASE_URL:
        messages.append(
            Warning(
                "The embedded PostgreSQL is used, which keeps all data on this machine.",
                hint="Set DATABASE_URL to a server that is backed up.",
                id="erl.deploy.W001",
            )
        )
    if settings.ERL_EMBEDDED_BROKER:
        messages.append(
            Warning(
                "The embedded Valkey is used, which other machines cannot reach.",
                hint="Set CELERY_BROKER_URL to a Redis or Valkey server.",
                id="erl.deploy.W002",
            )
        )
    if not settings.ERL_ADMIN_OTP:
        messages.append(
            Warning(
                "ERL_ADMIN_OTP is off: only passwords protect the lessons that agents are given.",
                hint="Set it to true; users then set up an authenticator app at the next sign-in.",
                id="erl.deploy.W004",
            )
        )
    if settings.ERL_HTTPS and not settings.ERL_PROXY_COUNT:
        messages.append(
            Warning(
                "ERL_PROXY_COUNT is 0 behind a proxy: all sign-ins appear to come from one address.",
                hint="Set it to the number of proxies that set X-Forwarded-For, or one attacker locks out everyone.",
                id="erl.deploy.W005",
            )
        )
    return [*messages, *_check_encryption()]


def _check_encryption() -> Iterator[CheckMessage]:
    """Report connections to other machines that anyone on the way can read or take over."""
    database = settings.DATABASES["default"]
    mode = database["OPTIONS"].get("sslmode", "prefer")
    if settings.DATABASE_URL and mode not in VERIFIED:
        fault = "is encrypted, but to whatever server answers" if mode == "require" else "may be unencrypted"
        yield from _report_connection(
            database["HOST"],
            f"The connection to PostgreSQL {fault} (sslmode={mode}).",
            hint="Add ?sslmode=verify-full&sslrootcert=/path/ca.pem to DATABASE_URL and DATABASE_OWNER_URL.",
            id="erl.deploy.W006",
        )
    broker = urlsplit(settings.CELERY_BROKER_URL)
    if not settings.ERL_EMBEDDED_BROKER and broker.scheme in UNENCRYPTED_BROKERS:
        yield from _report_connection(
            broker.hostname or "",
            "The connection to the broker is not encrypted.",
            hint="Write rediss://:password@host:6380/0?ssl_cert_reqs=required&ssl_ca_certs=/path/ca.pem.",
            id="erl.deploy.W007",
        )


def _report_connection(host: str, text: str, *, hint: str, id: str) -> Iterator[CheckMessage]:
    if not host or host.startswith("/") or host in ("localhost", "127.0.0.1", "::1"):
        return
    # A name without a dot is a neighbour in a network of containers, which may be this machine's own, as with compose.
    kind = Warning if "." in host or ":" in host else Info
    yield kind(text, hint=hint, id=id)
