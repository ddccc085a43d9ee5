"""Whether the services that ERL asks can be reached through the operator's proxy."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
from django.conf import settings

from erl_site.diagnosis.database import Diagnosis, failure, ok
from memory.connections import BoundedTransport, deadline
from memory.egress import goes_through_proxy
from memory.embeddings.registry import is_service
from reflection.llm.base import ProviderNotConfigured
from reflection.llm.registry import find_config

SECONDS = 5.0


def check_proxy() -> Iterator[Diagnosis]:
    """Ask every configured service through the proxy for anything: its answer shows that the way is open."""
    if not settings.ERL_HTTP_PROXY:
        return
    proxy = urlsplit(settings.ERL_HTTP_PROXY).hostname
    hosts = sorted({url for url in _service_urls() if goes_through_proxy(urlsplit(url).hostname or "")})
    faults = [result for result in map(_try, hosts) if result is not None]
    yield from faults
    if not faults:
        names = ", ".join(urlsplit(url).netloc for url in hosts) or "no configured service needs it"
        yield ok("proxy", f"The proxy {proxy} leads to: {names}.")


def _service_urls() -> Iterator[str]:
    try:
        config = find_config()
    except ProviderNotConfigured:  # which another check reports
        config = None
    addresses = [config.base_url if config else "", settings.ERL_RERANK_URL]
    addresses += [settings.ERL_EMBEDDER] if is_service(settings.ERL_EMBEDDER) else []
    for address in filter(None, addresses):
        parts = urlsplit(address)
        yield f"{parts.scheme}://{parts.netloc}"


def _try(url: str) -> Diagnosis | None:
    client = httpx.Client(transport=BoundedTransport(), trust_env=False, follow_redirects=False, timeout=SECONDS)
    try:
        with client, deadline(SECONDS), client.stream("GET", url):
            return None
    except httpx.ProxyError as error:
        message = f"The proxy refuses to connect to {url}: {error}."
        return failure("proxy", message, "Allow the host in the proxy, and check the name and password in the setting.")
    except httpx.HTTPError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            # As OpenSSL words it: "certificate has expired", "unable to get local issuer certificate"
            reason = str(error).partition("verify failed: ")[2].partition(" (_ssl")[0]
            todo = "If the proxy inspects TLS, set SSL_CERT_FILE to a file with the certificate of its authority."
            if "issuer" not in reason and "self-signed" not in reason:
                todo = "Ask those who run the proxy, or else the service, for a valid certificate."
            return failure("proxy", f"The certificate shown for {url} is not trusted: {reason}.", todo)
        message = f"{url} cannot be reached through the proxy ({type(error).__name__})."
        return failure("proxy", message, "Check ERL_HTTP_PROXY, and that the proxy can reach the host.")
